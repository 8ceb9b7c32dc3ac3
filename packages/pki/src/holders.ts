import { isIP } from "node:net";
import {
  formatIdentity,
  type Identity,
  InvalidArgumentError,
  parseId,
  quoted,
  ROLES,
  SCOPED_ROLES,
} from "@diskmesh/domain";

/** Subject of a certificate to be issued. */
export interface Holder {
  readonly identity: Identity;
  /** Base name of the certificate's files. */
  readonly name: string;
  /** DNS names at which the holder is reached. */
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

const MAX_HOLDERS = 100_000;
/** The last label must not be all digits, because such a name is a mistyped IP address. */
const DNS_NAME =
  /^(?=.{1,253}$)(?!.*(?:^|\.)\d+$)(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i;
/** Roles that a list of holders may name. It may not name agents in VMs, whose certificates the director issues. */
const LISTED_ROLES = ROLES.filter((role) => role !== "vm-agent");
/** Roles whose holders are persons or hosts of a name. The name of a scoped role is optional. */
const NAMED_ROLES = LISTED_ROLES.filter((role) => /^(disk-agent|operator-)/.test(role) && !SCOPED_ROLES.includes(role));

/**
 * Reads a list of holders. Each line has a role, followed by "/" and a name for roles with several holders or a scope,
 * then the DNS names and addresses of the holder; `#` begins a comment. Throws InvalidArgumentError with the number of the wrong
 * line.
 */
export function parseHolders(text: string, file: string): readonly Holder[] {
  const holders = new Map<string, Holder>();
  for (const [index, line] of text.split("\n").entries()) {
    const [who = "", ...places] = (line.split("#")[0] ?? "").trim().split(/\s+/);
    if (who === "") continue;
    try {
      const holder = { ...holderOf(who), ...placesOf(places) };
      const other = holders.get(holder.name);
      if (other !== undefined)
        throw new InvalidArgumentError(
          `${who} has the same files as ${formatIdentity(other.identity)}: give each holder one line and its own name`,
        );
      holders.set(holder.name, holder);
      if (holders.size > MAX_HOLDERS) throw new InvalidArgumentError(`the list has more than ${MAX_HOLDERS} holders`);
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error;
      throw new InvalidArgumentError(`${quoted(file)} line ${index + 1}: ${error.message}`, { cause: error });
    }
  }
  return [...holders.values()];
}

function holderOf(who: string): Pick<Holder, "identity" | "name"> {
  const [roleText, name = "", ...rest] = who.split("/");
  const role = LISTED_ROLES.find((each) => each === roleText);
  if (role === undefined || rest.length > 0)
    throw new InvalidArgumentError(
      `${quoted(who)} is not a holder: give ROLE or ROLE/NAME; roles: ${LISTED_ROLES.join(", ")}`,
    );
  if (name === "" && NAMED_ROLES.includes(role))
    throw new InvalidArgumentError(`${role} needs a name, as in ${role}/${role === "disk-agent" ? "host-1" : "alice"}`);
  if (name !== "") parseId("the name", name);
  // NAME-key.pem is the path of NAME's key, so this certificate would overwrite another holder's key.
  if (name.endsWith("-key"))
    throw new InvalidArgumentError(
      `${quoted(who)} ends in -key, which is the suffix of key files: choose another name`,
    );
  return { identity: { role, name }, name: name === "" ? role : `${role}-${name}` };
}

function placesOf(places: readonly string[]): Pick<Holder, "dnsNames" | "ipAddresses"> {
  const dnsNames = places.filter((place) => isIP(place) === 0);
  const odd = dnsNames.find((name) => !DNS_NAME.test(name));
  if (odd !== undefined) throw new InvalidArgumentError(`${quoted(odd)} is neither a DNS name nor an address`);
  return { dnsNames, ipAddresses: places.filter((place) => isIP(place) !== 0) };
}
