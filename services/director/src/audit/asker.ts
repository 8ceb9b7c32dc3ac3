import { formatIdentity } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Asker } from "../store/director-event.js";

/** What is known of who asks for something, and by which call; without a call, it is the director itself. */
export type Asking = Pick<CallContext, "identity" | "authentication" | "traceId"> &
  Partial<Pick<CallContext, "requestId">>;

/** Who starts what nobody has asked for. */
export const BY_DIRECTOR = { identity: { role: "director", name: "" } } as const;

/** Who asks, as tasks and events have it. */
export function userOf({ identity }: Pick<CallContext, "identity">): string {
  return identity.name === "" ? formatIdentity(identity) : identity.name;
}

export function authenticationOf({ authentication }: Asking): string {
  return authentication ?? "certificate";
}

/** Who asks, and by which call, as events have it. */
export function askerOf(call: Asking): Asker {
  const { requestId, traceId = "" } = call;
  if (requestId === undefined) return { user: userOf(call), requestId: "", traceId, authentication: "" };
  return { user: userOf(call), requestId, traceId, authentication: authenticationOf(call) };
}
