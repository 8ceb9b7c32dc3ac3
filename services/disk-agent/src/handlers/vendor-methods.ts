import type {
  CallMethodRequest,
  CallMethodResponse,
  CancelMethodRequest,
  CancelMethodResponse,
  JoinMethodRequest,
  JoinMethodResponse,
  ListMethodsResponse,
} from "@diskmesh/api/internal";
import type { CallContext } from "@diskmesh/rpc";
import type { AgentContext } from "../calls/context.js";

export async function listMethods({ vendors }: AgentContext): Promise<ListMethodsResponse> {
  return vendors.listMethods();
}

export function callMethod(
  { vendors }: AgentContext,
  request: CallMethodRequest,
  call: CallContext,
): Promise<CallMethodResponse> {
  return vendors.call(request, call);
}

export function joinMethod(
  { vendors }: AgentContext,
  request: JoinMethodRequest,
  call: CallContext,
): Promise<JoinMethodResponse> {
  return vendors.join(request, call);
}

export async function cancelMethod(
  { vendors }: AgentContext,
  { callId }: CancelMethodRequest,
): Promise<CancelMethodResponse> {
  vendors.cancel(callId);
  return {};
}
