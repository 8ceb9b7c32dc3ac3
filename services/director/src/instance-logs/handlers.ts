import type { Readable } from "node:stream";
import {
  type DownloadLogsRequest,
  type DownloadLogsResponse,
  type FetchLogsRequest,
  LogType as WireLogType,
} from "@diskmesh/api/director";
import { InvalidArgumentError, NotFoundError } from "@diskmesh/domain";
import { selectInstances } from "../instances/lifecycle.js";
import { instancesOf, requireDeployment } from "../instances/recorded-deployments.js";
import type { LogType } from "../store/task.js";
import { parseSelection, parseTaskId, placeOf } from "../tasks/parse.js";
import { type TaskMethod, taskMethod } from "../tasks/task-method.js";
import type { LogContext } from "./context.js";

export async function* downloadLogs(
  context: LogContext,
  request: DownloadLogsRequest,
): AsyncGenerator<DownloadLogsResponse> {
  const { bytes } = await logFileOf(context, parseTaskId(request.taskId));
  for await (const piece of bytes) yield { piece: piece as Buffer };
}

/** Returns the file that a task fetched. The caller must read or destroy the stream. */
export async function logFileOf(
  context: LogContext,
  taskId: number,
): Promise<{ readonly sizeBytes: number; readonly bytes: Readable }> {
  const { type, state } = await context.tasks.get(taskId);
  if (type !== "fetch_logs" || state !== "done")
    throw new NotFoundError(`task ${taskId} has no fetched logs: its type is ${type}, and its state ${state}`);
  return context.logFiles.read(taskId);
}

const LOG_TYPES: ReadonlyMap<WireLogType, LogType> = new Map([
  [WireLogType.JOB, "job"],
  [WireLogType.AGENT, "agent"],
  [WireLogType.SYSTEM, "system"],
]);
const MAX_FILTERS = 100;
const MAX_FILTER_LENGTH = 255;

export const fetchLogs: TaskMethod<FetchLogsRequest> = taskMethod("urgent", (request) => {
  const { deployment, ...selection } = parseSelection(request.selection);
  const logTypes = parseLogTypes(request.logTypes);
  const filters = parseFilters(request.filters);
  return {
    job: { type: "fetch_logs", deployment, selection, logTypes, filters },
    description: `fetch logs of \`${placeOf({ deployment, ...selection })}\``,
    deployment,
    check: (tables) => {
      requireDeployment(tables, deployment);
      selectInstances(instancesOf(tables, deployment), selection);
    },
  };
});

function parseLogTypes(wanted: readonly WireLogType[]): readonly LogType[] {
  if (wanted.length === 0) return ["job"];
  const types = wanted.map((each) => {
    const type = LOG_TYPES.get(each);
    if (type !== undefined) return type;
    throw new InvalidArgumentError("log_types must be one or more of JOB, AGENT, SYSTEM", {
      about: { field: "log_types" },
    });
  });
  return [...new Set(types)];
}

/** Returns valid filters. Agents look for filters below the folder of a log type and accept no other paths. */
function parseFilters(filters: readonly string[]): readonly string[] {
  const about = { about: { field: "filters" } };
  if (filters.length > MAX_FILTERS) throw new InvalidArgumentError(`at most ${MAX_FILTERS} filters`, about);
  for (const filter of filters) {
    if (filter === "" || filter.length > MAX_FILTER_LENGTH || /\p{Cc}/u.test(filter))
      throw new InvalidArgumentError(`a filter must have 1 to ${MAX_FILTER_LENGTH} characters`, about);
    if (filter.startsWith("/") || filter.split("/").includes(".."))
      throw new InvalidArgumentError("a filter is a path within the folder of logs, without ..", about);
  }
  return filters;
}
