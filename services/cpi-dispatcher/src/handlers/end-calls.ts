import type { EndCallsRequest, EndCallsResponse } from "@diskmesh/api/cpi";
import { parseName, parseOptionalName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
import { parseDirector } from "./cpi-method.js";

export async function endCalls(
  context: DispatcherContext,
  request: EndCallsRequest,
  call: CallContext,
): Promise<EndCallsResponse> {
  const director = parseDirector(request.directorId, request.directorGeneration);
  const requestId = parseName("request_id", request.requestId);
  const callId = parseOptionalName("call_id", request.callId) ?? "";
  return { calls: await context.fence.endCalls(director, { requestId, callId }, call.signal) };
}
