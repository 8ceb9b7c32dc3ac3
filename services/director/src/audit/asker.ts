import { formatIdentity } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Asker } from "../store/director-event.js";

/** The caller and call of a request. The director's own work has no request id. */
export type Asking = Pick<CallContext, "identity" | "authentication" | "traceId"> &
  Partial<Pick<CallContext, "requestId">>;

/** The caller of work that the director starts itself. */
export const BY_DIRECTOR = { identity: { role: "director", name: "" } } as const;

/** Returns the caller's name for tasks and events. */
export function userOf({ identity }: Pick<CallContext, "identity">): string {
  return identity.name === "" ? formatIdentity(identity) : identity.name;
}

export function authenticationOf({ authentication }: Asking): string {
  return authentication ?? "certificate";
}

/** Returns the event fields that describe the caller and the call. */
export function askerOf(call: Asking): Asker {
  const { requestId, traceId = "" } = call;
  if (requestId === undefined) return { user: userOf(call), requestId: "", traceId, authentication: "" };
  return { user: userOf(call), requestId, traceId, authentication: authenticationOf(call) };
}
