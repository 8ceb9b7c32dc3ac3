import { formatIdentity, isScoped } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Asker } from "../store/director-event.js";
import type { Scope } from "../store/scope.js";

/** The caller and call of a request. The director's own work has no request id. */
export type Asking = Pick<CallContext, "identity" | "authentication" | "traceId"> &
  Partial<Pick<CallContext, "requestId">>;

/** The caller of work that the director starts itself. */
export const BY_DIRECTOR = { identity: { role: "director", name: "" } } as const;

/**
 * Returns the caller's name for tasks and events. The user of a scoped identity contains a slash, which no login's name
 * does, because a user reads the tasks that it started.
 */
export function userOf({ identity }: Pick<CallContext, "identity">): string {
  if (isScoped(identity)) return `${identity.role}/${identity.name}`;
  return identity.name === "" ? formatIdentity(identity) : identity.name;
}

/** Returns the scope at which the caller's rights on dynamic disks end; undefined where they do not end. */
export function scopeOf({ identity, teams }: Pick<CallContext, "identity" | "teams">): Scope | undefined {
  if (teams !== undefined) return { teams };
  if (!isScoped(identity)) return undefined;
  return identity.role === "csi" ? { name: identity.name } : { teams: [identity.name] };
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
