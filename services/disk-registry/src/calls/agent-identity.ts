import { formatIdentity, type HostId, PermissionDeniedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "./context.js";

/** Throws unless the caller's certificate names the host: an agent acts for its own host only. */
export function requireOwnHost(
  { refusedAgents }: Pick<Context, "refusedAgents">,
  { identity }: CallContext,
  hostId: HostId,
): void {
  if (identity.name === hostId) return;
  const why = `${formatIdentity(identity)} may not act for host ${hostId}: its certificate names another host`;
  refusedAgents.claimRefused(hostId, identity.name, why);
  throw new PermissionDeniedError(why, { about: { identity: formatIdentity(identity), host_id: hostId } });
}
