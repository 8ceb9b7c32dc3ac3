import { type HostId, isId } from "./identifiers.js";

/**
 * Identity of a process in its certificate: a URI in the subject alternative name, `spiffe://diskmesh/<role>` or
 * `spiffe://diskmesh/<role>/<name>`. Agents of hosts have their host id as name, agents of VMs their agent id. Agents
 * of VMs connect only to NATS, and no service accepts them. The name of a `csi` or `operator-disks` identity is its scope.
 */
export const ROLES = [
  "operator",
  "operator-reader",
  "operator-disks",
  "operator-hosts",
  "operator-deployments",
  "director",
  "cpi-dispatcher",
  "disk-registry",
  "disk-agent",
  "vm-agent",
  "csi",
  "nats",
] as const;
export type Role = (typeof ROLES)[number];

/**
 * Roles of people and their scripts. `operator` may call every method. All operator roles may read; each of the others
 * may also make the changes that its name lists.
 */
export const OPERATOR_ROLES: readonly Role[] = ROLES.filter((role) => /^operator(-|$)/.test(role));

export function isOperator(role: Role): boolean {
  return OPERATOR_ROLES.includes(role);
}

/** Roles whose name is the scope at which their rights end: a deployment for `csi`, a team for `operator-disks`. */
export const SCOPED_ROLES: readonly Role[] = ["csi", "operator-disks"];

export interface Identity {
  readonly role: Role;
  /**
   * Host id or agent id of an agent, the scope of a scoped role, or the name of a person or script for another operator;
   * empty where one certificate serves all.
   */
  readonly name: string;
}

const PREFIX = "spiffe://diskmesh/";

/**
 * Host part of the identity URIs of agents that joined by a token. The authority that signs them is constrained to it,
 * so TLS refuses any other identity that this authority signs.
 */
export const JOINED_HOSTS_DOMAIN = "hosts.diskmesh";
const JOINED_PREFIX = `spiffe://${JOINED_HOSTS_DOMAIN}/`;

/** Returns the identity URI of an agent that joined by a token: the URI names a host, and no role but this one. */
export function joinedHostUri(hostId: HostId): string {
  return `${JOINED_PREFIX}${hostId}`;
}

export function identityUri(identity: Identity): string {
  return identity.name === "" ? `${PREFIX}${identity.role}` : `${PREFIX}${identity.role}/${identity.name}`;
}

/** Returns undefined when the URI names no diskmesh identity. */
export function parseIdentityUri(uri: string): Identity | undefined {
  if (uri.startsWith(JOINED_PREFIX)) {
    const name = uri.slice(JOINED_PREFIX.length);
    return isId(name) ? { role: "disk-agent", name } : undefined;
  }
  if (!uri.startsWith(PREFIX)) return undefined;
  const [role, name = "", ...rest] = uri.slice(PREFIX.length).split("/");
  const known = ROLES.find((candidate) => candidate === role);
  return known && rest.length === 0 ? { role: known, name } : undefined;
}

/** Returns true when the identity's rights end at the scope that its name is. */
export function isScoped({ role, name }: Identity): boolean {
  return name !== "" && SCOPED_ROLES.includes(role);
}

export function formatIdentity(identity: Identity): string {
  return identity.name === "" ? identity.role : `${identity.role} ${identity.name}`;
}
