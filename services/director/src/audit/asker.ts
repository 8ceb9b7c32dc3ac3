import { formatIdentity } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Asker } from "../store/director-event.js";

/** The caller of a request and its call; without a call, the director itself. */
export type Asking = Pick<CallContext, "identity" | "authentication" | "traceId"> &
  Partial<Pick<CallContext, "requestId">>;

/** The caller of work that nobody asked for. */
export const BY_DIRECTOR = { identity: { role: "director", name: "" } } as const;

/** Returns the caller's name in tasks and events. */
export function userOf({ identity }: Pick<CallContext, "identity">): string {
  return identity.name === "" ? formatIdentity(identity) : identity.name;
}

export function authenticationOf({ authentication }: Asking): string {
  return authentication ?? "certificate";
}

/** Returns the caller and the call, in an event's fields. */
export function askerOf(call: Asking): Asker {
  const { requestId, traceId = "" } = call;
  if (requestId === undefined) return { user: userOf(call), requestId: "", traceId, authentication: "" };
  return { user: userOf(call), requestId, traceId, authentication: authenticationOf(call) };
}
