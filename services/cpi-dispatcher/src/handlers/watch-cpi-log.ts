import type { WatchCpiLogRequest, WatchCpiLogResponse } from "@diskmesh/api/cpi";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../context.js";

export async function* watchCpiLog(
  context: DispatcherContext,
  request: WatchCpiLogRequest,
  call: CallContext,
): AsyncIterable<WatchCpiLogResponse> {
  const logId = parseName("log_id", request.logId);
  for await (const line of context.log.watch(logId, call.signal)) yield { line };
}
