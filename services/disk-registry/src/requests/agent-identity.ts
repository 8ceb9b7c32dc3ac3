import { formatIdentity, type HostId, PermissionDeniedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";

/** An agent speaks for the host in its certificate alone. */
export function requireOwnHost({ identity }: CallContext, hostId: HostId): void {
  if (identity.name === hostId) return;
  throw new PermissionDeniedError(
    `${formatIdentity(identity)} speaks for host ${hostId}, which is not the one in its certificate`,
    { about: { identity: formatIdentity(identity), host_id: hostId } },
  );
}
