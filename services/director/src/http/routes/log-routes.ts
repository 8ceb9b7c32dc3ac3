import { LogType } from "@diskmesh/api/director";
import { fetchLogs, logFileOf } from "../../instance-logs/handlers.js";
import { BadRequestError } from "../http-error.js";
import type { Route } from "../route.js";
import { selectionOf } from "./lifecycle-routes.js";
import { startTask } from "./start-task.js";
import { seenTask } from "./task-routes.js";

const LOG_TYPES: ReadonlyMap<string, LogType> = new Map([
  ["job", LogType.JOB],
  ["agent", LogType.AGENT],
  ["system", LogType.SYSTEM],
]);

/** Log downloads as the bosh CLI makes them: a task, then the file named by the task's result. */
export const logRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/deployments/:deployment/jobs/:group/:instance/logs",
    operation: "fetchLogs",
    serve: async (http) => {
      const { query } = http;
      const logTypes = listOf(query.get("type")).map((type) => {
        const known = LOG_TYPES.get(type);
        if (known === undefined)
          throw new BadRequestError(`type must be one or more of ${[...LOG_TYPES.keys()].join(", ")}`);
        return known;
      });
      const filters = listOf(query.get("filters"));
      return startTask(http, fetchLogs, { selection: selectionOf(http), logTypes, filters });
    },
  },
  {
    method: "GET",
    path: "/resources/:id",
    operation: undefined,
    serve: async (http) => {
      const { taskId } = await seenTask(http, "fetchLogs");
      const { sizeBytes, bytes } = await logFileOf(http.context, taskId);
      const headers = { "content-type": "application/gzip", "content-length": String(sizeBytes) };
      return { status: 200, headers, body: bytes };
    },
  },
];

function listOf(text: string | null): string[] {
  return (text ?? "").split(",").filter(Boolean);
}
