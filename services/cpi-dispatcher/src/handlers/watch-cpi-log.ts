import type { WatchCpiLogRequest, WatchCpiLogResponse } from "@diskmesh/api/cpi";
import { InvalidArgumentError, parseId, parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
import type { WatchedLog } from "../cpis/cpi-log.js";

export async function* watchCpiLog(
  context: DispatcherContext,
  request: WatchCpiLogRequest,
  call: CallContext,
): AsyncIterable<WatchCpiLogResponse> {
  yield* context.log.watch(parseWatched(request), call.signal);
}

function parseWatched({ logId, directorId }: WatchCpiLogRequest): WatchedLog {
  if (directorId === "") return { logId: parseName("log_id", logId) };
  if (logId !== "")
    throw new InvalidArgumentError("log_id and director_id are both given: give only one of them", {
      about: { field: "log_id" },
    });
  return { directorId: parseId("director_id", directorId) };
}
