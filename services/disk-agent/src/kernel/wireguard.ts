import { createPrivateKey, createPublicKey, generateKeyPairSync } from "node:crypto";
import { lookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { replaceFile } from "@diskmesh/atomic-file";
import { formatHostPort, type HostId, messageOf, parseHostPort } from "@diskmesh/domain";
import { Slots } from "@diskmesh/service";
import { dividePeers, filterRules } from "../model/wireguard.js";
import type { Verbs } from "./verbs.js";
import { innerAddressOf, interfaceOf } from "./wireguard-names.js";

const KEY_BYTES = 32;
/** Bytes of PKCS #8 before a private key of X25519. */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b656e04220420", "hex");

interface WireGuardOptions {
  readonly hostId: HostId;
  /** False where the config has another storage network. What a former config has left is tidied up then. */
  readonly isUsed: boolean;
  /** File of the private key, which is made when there is none. */
  readonly keyFile: string;
  /** Address at which other hosts reach this one. Its host may be a name; its port is the UDP port of WireGuard. */
  readonly endpoint: { readonly host: string; readonly port: number };
  /** Port of NVMe/TCP, the only one that peers may connect to. */
  readonly nvmePort: number;
  readonly verbs: Verbs;
}

/** Key of a host, and the address of its WireGuard as `host:port`. */
export interface WireGuardSide {
  readonly publicKey: string;
  readonly endpoint: string;
}

/**
 * WireGuard between the hosts of sessions: an interface of this agent, whose peers are the hosts that have sessions here or
 * devices of sessions used here. The kernel's interface is the only record of the peers, and outlives the agent.
 */
export class WireGuard {
  readonly #options: WireGuardOptions;
  /** Set by a start that succeeded. */
  #publicKey = "";
  /** Hosts to which connections are being made, once for each. */
  readonly #reaching: HostId[] = [];
  /** Each change begins once former ones have ended, so that a peer is not removed by a decision from before it came. */
  readonly #turns = new Slots(1);

  constructor(options: WireGuardOptions) {
    this.#options = options;
  }

  get isUsed(): boolean {
    return this.#options.isUsed;
  }

  /** Key and address of this host, for its peers. */
  get side(): WireGuardSide {
    return { publicKey: this.#publicKey, endpoint: formatHostPort(this.#options.endpoint) };
  }

  /** Makes key, interface and rules, or finds those of a former life. Returns why it cannot; undefined when it can. */
  async start(): Promise<string | undefined> {
    const { keyFile, verbs } = this.#options;
    try {
      const reason = await whyNoWireGuard(verbs);
      if (reason !== undefined) return reason;
      this.#publicKey = await publicKeyOf(keyFile);
      await this.#turns.run(() => this.#makeInterface());
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  }

  /**
   * Lets a host connect to this one, and returns whether it was no peer before. The caller has noted a session of the host.
   */
  async admit(hostId: HostId, publicKey: string): Promise<boolean> {
    return (await this.#turns.run(() => this.#setPeer(hostId, publicKey))) !== "";
  }

  /**
   * Makes a host reachable and connects to it. The host stays a peer while `tidy` is told so. A host for which this one is new
   * drops what is encrypted for its former session, and WireGuard would find that after 15 s: `isNew` begins another one.
   */
  async reach<Result>(
    hostId: HostId,
    { publicKey, endpoint, isNew }: WireGuardSide & { readonly isNew: boolean },
    connect: () => Promise<Result>,
  ): Promise<Result> {
    this.#reaching.push(hostId);
    try {
      const { host, port } = parseHostPort("endpoint", endpoint);
      const address = formatHostPort({ host: (await lookup(host)).address, port });
      await this.#turns.run(async () => {
        if (isNew) await this.#run(`the former WireGuard peer of host ${hostId}`, REMOVE_PEERS, [publicKey]);
        await this.#setPeer(hostId, publicKey, address);
      });
      return await connect();
    } finally {
      this.#reaching.splice(this.#reaching.indexOf(hostId), 1);
    }
  }

  /** Removes the peers of other hosts than those of present sessions, and mends the interface and its rules. */
  async tidy(hostsOfSessions: () => Promise<readonly HostId[]>): Promise<void> {
    await this.#turns.run(async () => {
      const { isUsed } = this.#options;
      if (isUsed && this.#publicKey !== "") await this.#makeInterface();
      const shown = await this.#run("the list of the peers of WireGuard", LIST, []);
      // Read first: what is reached by then is a host of a session.
      const reaching = [...this.#reaching];
      const hosts = [...reaching, ...(await hostsOfSessions())];
      const { wanted, strays } = dividePeers(shown, new Set(hosts.map(innerAddressOf)));
      if (strays.length > 0) await this.#run("the removal of peers of WireGuard", REMOVE_PEERS, strays);
      if (!isUsed && wanted.length === 0 && shown !== "") await this.#remove();
    });
  }

  /** Removes the interface and its rules. */
  remove(): Promise<void> {
    return this.#turns.run(() => this.#remove());
  }

  async #remove(): Promise<void> {
    await this.#run("the removal of WireGuard", REMOVE, []);
  }

  async #makeInterface(): Promise<void> {
    const { hostId, keyFile, endpoint, nvmePort } = this.#options;
    const name = interfaceOf(hostId);
    const address = innerAddressOf(hostId);
    const args = [keyFile, `${endpoint.port}`, address, filterRules({ name, address, nvmePort })];
    await this.#run(`the WireGuard interface ${name}`, MAKE, args);
  }

  #setPeer(hostId: HostId, publicKey: string, endpoint?: string): Promise<string> {
    const args = [innerAddressOf(hostId), publicKey, ...(endpoint === undefined ? [] : ["endpoint", endpoint])];
    return this.#run(`the WireGuard peer of host ${hostId}`, SET_PEER, args);
  }

  #run(what: string, script: string, args: readonly string[]): Promise<string> {
    const name = interfaceOf(this.#options.hostId);
    return this.#options.verbs.run(name, { what, script, args: [name, ...args] });
  }
}

/** Returns the public key of the private key in a file, which is made when there is none. */
export async function publicKeyOf(keyFile: string): Promise<string> {
  let text = await readFile(keyFile, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  if (text === "") {
    const { privateKey } = generateKeyPairSync("x25519");
    const made = privateKey.export({ format: "der", type: "pkcs8" }).subarray(PKCS8_PREFIX.length);
    text = `${made.toString("base64")}\n`;
    await replaceFile(keyFile, text);
  }
  const bytes = Buffer.from(text, "base64");
  if (bytes.length !== KEY_BYTES) throw new Error(`${keyFile} has no private key of WireGuard: move the file away`);
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, bytes]), format: "der", type: "pkcs8" });
  const publicKey = createPublicKey(key);
  return Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url").toString("base64");
}

/** Returns what this host lacks for WireGuard, and changes nothing; undefined when it lacks nothing. */
export function whyNoWireGuard(verbs: Verbs): Promise<string | undefined> {
  const verb = { what: "the check of the host", script: CHECK, args: [] };
  return verbs.run("check", verb).then(() => undefined, messageOf);
}

const CHECK = `
for each in ip:iproute2 wg:wireguard-tools nft:nftables; do
  if ! command -v "\${each%%:*}" > /dev/null; then
    echo "\${each%%:*} is not on PATH (Debian: \${each#*:})" >&2
    exit 1
  fi
done
for each in wireguard nf_tables; do
  if [ ! -d "/sys/module/$each" ] && ! modprobe --dry-run --quiet "$each"; then
    echo "the kernel has no module $each" >&2
    exit 1
  fi
done`;

/** The rules come before the address, so that no packet passes without them. */
const MAKE = `
name=$1 key=$2 port=$3 address=$4 rules=$5
nft --file - << END
$rules
END
ip link show dev "$name" > /dev/null 2>&1 || ip link add "$name" type wireguard
wg set "$name" listen-port "$port" private-key "$key"
ip -6 address replace "$address/128" dev "$name"
ip link set "$name" up`;

/** Prints a word for a new peer. */
const SET_PEER = `
name=$1 address=$2 key=$3
shift 3
case "$(wg show "$name" peers)" in
  *"$key"*) ;;
  *) echo new ;;
esac
wg set "$name" peer "$key" allowed-ips "$address/128" "$@"
ip -6 route replace "$address/128" dev "$name"`;

const LIST = `
ip link show dev "$1" > /dev/null 2>&1 || exit 0
echo "peers of $1"
wg show "$1" allowed-ips`;

/** The route stays: without its peer the kernel refuses the packets. */
const REMOVE_PEERS = `
name=$1
shift
for each; do wg set "$name" peer "$each" remove; done`;

const REMOVE = `
if ip link show dev "$1" > /dev/null 2>&1; then ip link del "$1"; fi
if command -v nft > /dev/null; then nft delete table ip6 "$1" 2> /dev/null || :; fi`;
