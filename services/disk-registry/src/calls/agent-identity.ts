import { formatIdentity, type HostId, PermissionDeniedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "./context.js";

/** An agent speaks for the host in its certificate alone. */
export function requireOwnHost(
  { refusedAgents }: Pick<Context, "refusedAgents">,
  { identity }: CallContext,
  hostId: HostId,
): void {
  if (identity.name === hostId) return;
  const why = `${formatIdentity(identity)} speaks for host ${hostId}, which is not the one in its certificate`;
  refusedAgents.claimRefused(hostId, why);
  throw new PermissionDeniedError(why, { about: { identity: formatIdentity(identity), host_id: hostId } });
}
