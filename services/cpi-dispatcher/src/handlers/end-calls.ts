import type { EndCallsRequest, EndCallsResponse } from "@diskmesh/api/cpi";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../context.js";
import { parseDirector } from "./cpi-method.js";

export async function endCalls(
  context: DispatcherContext,
  request: EndCallsRequest,
  call: CallContext,
): Promise<EndCallsResponse> {
  const director = parseDirector(request.directorId, request.directorGeneration);
  const requestId = parseName("request_id", request.requestId);
  return { calls: await context.fence.endCalls(director, requestId, call.signal) };
}
