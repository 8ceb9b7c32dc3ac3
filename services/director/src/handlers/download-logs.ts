import type { Readable } from "node:stream";
import type { DownloadLogsRequest, DownloadLogsResponse } from "@diskmesh/api/director";
import { NotFoundError } from "@diskmesh/domain";
import type { LogContext } from "../context.js";
import { parseTaskId } from "./parse.js";

export async function* downloadLogs(
  context: LogContext,
  request: DownloadLogsRequest,
): AsyncGenerator<DownloadLogsResponse> {
  const { bytes } = await logFileOf(context, parseTaskId(request.taskId));
  for await (const piece of bytes) yield { piece: piece as Buffer };
}

/** What a task has fetched; its stream must be read or destroyed. */
export async function logFileOf(
  context: LogContext,
  taskId: number,
): Promise<{ readonly sizeBytes: number; readonly bytes: Readable }> {
  const { type, state } = await context.tasks.get(taskId);
  if (type !== "fetch_logs" || state !== "done")
    throw new NotFoundError(`task ${taskId} has fetched no logs: it is a ${type}, and ${state}`);
  return context.logFiles.read(taskId);
}
