import { InvalidArgumentError, parseHostId, quoted } from "@diskmesh/domain";

/** Kind of object that a CID identifies. */
export type CidKind = "vm" | "disk" | "stemcell" | "snapshot";

const MAX_CID_LENGTH = 255;
const PRINTABLE = /^[\x21-\x7e]+$/;
/** Agents use these CIDs as file names, so a slash would escape their folder. */
const FILE_NAMES: ReadonlySet<CidKind> = new Set(["vm", "disk"]);

/** Returns the rule for ids of that kind, for messages. */
export function cidRule(kind: CidKind): string {
  const text = `at most ${MAX_CID_LENGTH} printable ASCII characters without blanks`;
  return FILE_NAMES.has(kind) ? `${text} that make a file name` : text;
}

/**
 * Returns true when the value can be a CID. A CPI may refuse some of these values, because the infrastructure chooses
 * the form of its CIDs.
 */
export function isCid(kind: CidKind, value: unknown): value is string {
  if (typeof value !== "string" || value.length > MAX_CID_LENGTH || !PRINTABLE.test(value)) return false;
  return !FILE_NAMES.has(kind) || !(value.includes("/") || value === "." || value === "..");
}

/** Validates a CID of a request; `field` names it in the error. */
export function parseCid(kind: CidKind, value: string, field = `${kind}_cid`): string {
  if (isCid(kind, value)) return value;
  throw new InvalidArgumentError(
    value === "" ? `${field} is empty: give one` : `${field} ${quoted(value)} is malformed: give ${cidRule(kind)}`,
    { about: { field } },
  );
}

const HOST_PREFIX = "host/";

/** Returns the CID of a host that is used without a VM. The slash tells it from the CID of every VM. */
export function cidOfHost(hostId: string): string {
  return `${HOST_PREFIX}${hostId}`;
}

/** Returns the host of a CID made by `cidOfHost`; undefined for the CID of a VM. */
export function hostOfCid(cid: string): string | undefined {
  return cid.startsWith(HOST_PREFIX) ? cid.slice(HOST_PREFIX.length) : undefined;
}

/** Validates the CID of a VM or of a host. */
export function parseVmOrHostCid(value: string): string {
  const hostId = hostOfCid(value);
  return hostId === undefined ? parseCid("vm", value) : cidOfHost(parseHostId(hostId, "vm_cid"));
}

/** Like `parseCid`, but accepts protobuf's empty string, which means none. */
export function parseOptionalCid(kind: CidKind, value: string): string {
  return value === "" ? "" : parseCid(kind, value);
}
