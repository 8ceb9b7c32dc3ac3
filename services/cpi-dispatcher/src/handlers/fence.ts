import type { FenceRequest, FenceResponse } from "@diskmesh/api/cpi";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
import { parseDirector } from "./cpi-method.js";

export async function fence(
  context: DispatcherContext,
  request: FenceRequest,
  call: CallContext,
): Promise<FenceResponse> {
  await context.fence.raise(parseDirector(request.directorId, request.directorGeneration), call.signal);
  return {};
}
