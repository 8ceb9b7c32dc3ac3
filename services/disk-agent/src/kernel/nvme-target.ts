import { isIP } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type HostId, InvalidArgumentError, type Logger, messageOf } from "@diskmesh/domain";
import { pathOf } from "../model/mapped-devices.js";
import {
  formatNqn,
  type NamespaceName,
  NQN_PREFIX,
  type NvmeAddress,
  namespaceNguid,
  namespaceUuid,
  parseNqn,
} from "./nvme-names.js";
import type { Verbs } from "./verbs.js";

const RETRY_MS = 1_000;
/** Subject of the verbs that concern the port, which all subsystems share. */
const PORT = "the port of NVMe/TCP";

interface NvmeTargetOptions {
  readonly hostId: HostId;
  readonly verbs: Verbs;
  readonly machineBootId: () => Promise<string>;
  /** Address at which the kernel listens. */
  readonly listen: NvmeAddress;
  /** Number of the port in the kernel's configuration; that of TCP when absent. */
  readonly portId?: number | undefined;
  readonly log: Logger;
}

/** A leg that becomes a namespace. */
export interface SharedLeg {
  /** Number of the leg. */
  readonly number: string;
  /** UUID of the leg in device-mapper: a number may be another leg's later. */
  readonly uuid: string;
  /** First byte of the device on the leg. */
  readonly startBytes: number;
  /** Throws once the leg is being fenced. */
  readonly check: () => void;
}

/**
 * Serves legs to holders on other hosts by NVMe/TCP, with the kernel's own target: a subsystem for each session, and a
 * namespace for each part. The kernel's configuration is the only record, and outlives the agent.
 */
export class NvmeTarget {
  readonly #options: NvmeTargetOptions;
  /** Subsystems that exist, or are being made, by session. */
  readonly #sessions = new Map<number, Set<string>>();
  /** UUIDs of the legs that holders may use, by session. */
  readonly #legs = new Map<number, Set<string>>();
  /** False while the kernel has not said what there is. */
  #isFound = false;

  constructor(options: NvmeTargetOptions) {
    this.#options = options;
  }

  /** Finds the subsystems that a former life of the agent has left. */
  async find(): Promise<void> {
    try {
      await this.#look();
    } catch (error) {
      this.#options.log.error({ error: messageOf(error) }, "NVMe/TCP subsystems of the agent's former life not found");
    }
  }

  async #look(): Promise<void> {
    const { hostId, verbs } = this.#options;
    const verb = { what: "the list of NVMe/TCP subsystems", script: LIST, args: [NQN_PREFIX] };
    for (const nqn of (await verbs.run(PORT, verb)).split("\n")) if (parseNqn(nqn)?.hostId === hostId) this.#note(nqn);
    this.#isFound = true;
  }

  #note(nqn: string): void {
    const { sessionNumber } = parseNqn(nqn) ?? {};
    if (sessionNumber === undefined) throw new InvalidArgumentError(`${JSON.stringify(nqn)} is no NQN of an agent`);
    this.#sessions.set(sessionNumber, (this.#sessions.get(sessionNumber) ?? new Set()).add(nqn));
  }

  /** Sessions that have a subsystem, or are about to get one. */
  get sessions(): readonly number[] {
    return [...this.#sessions.keys()];
  }

  /** Returns whether the session may have a subsystem, or is about to get one. */
  serves(sessionNumber: number): boolean {
    return !this.#isFound || this.#sessions.has(sessionNumber);
  }

  /** Notes a leg that holders may use: the subsystem stays while its session has any. */
  noteLeg(sessionNumber: number, uuid: string): void {
    this.#legs.set(sessionNumber, (this.#legs.get(sessionNumber) ?? new Set()).add(uuid));
  }

  /** Notes that a leg is being fenced. Must be called for all legs that end together before `end` is. */
  noteFence(sessionNumber: number, uuid: string): void {
    const legs = this.#legs.get(sessionNumber);
    legs?.delete(uuid);
    if (legs?.size === 0) this.#legs.delete(sessionNumber);
  }

  /** Returns the NQN of the session's subsystem from now on. Must be called before its legs are looked for. */
  async begin(fleet: string, sessionNumber: number): Promise<string> {
    const { hostId, machineBootId } = this.#options;
    const nqn = formatNqn({ fleet, hostId, sessionNumber, machineBootId: await machineBootId() });
    this.#note(nqn);
    return nqn;
  }

  /** Makes the leg a namespace of the session's subsystem, or tells the holder's kernel that the namespace has grown. */
  async share(nqn: string, name: NamespaceName, { number, uuid, startBytes, check }: SharedLeg): Promise<void> {
    const { verbs, listen, portId = listen.port } = this.#options;
    const { host, port } = listen;
    const family = isIP(host) === 6 ? "ipv6" : "ipv4";
    const make = { what: `the NVMe/TCP port ${port}`, script: OPEN_PORT, args: [host, `${port}`, family, `${portId}`] };
    await verbs.run(PORT, make);
    const what = `the NVMe/TCP namespace of device ${name.deviceId} in session ${name.sessionNumber}`;
    check();
    this.noteLeg(name.sessionNumber, uuid);
    const ids = [namespaceUuid(nqn, name), namespaceNguid(nqn, name, startBytes)];
    await verbs.run(nqn, { what, script: SHARE, args: [nqn, ...ids, pathOf(number), uuid, `${portId}`] }, check);
  }

  /**
   * Ends the session's subsystems, or only the namespace of a leg while holders may use others of the session: a part of their
   * disk has moved away. Resolves once they have no leg any more, also when the kernel hangs for some time.
   */
  async end(sessionNumber: number, legNumber?: string): Promise<void> {
    while (this.serves(sessionNumber))
      try {
        if (legNumber === undefined || !this.#legs.has(sessionNumber)) await this.#tryToEnd(sessionNumber);
        else return await this.#endNamespaces(sessionNumber, pathOf(legNumber));
      } catch (error) {
        this.#options.log.error({ sessionNumber, error: messageOf(error) }, "NVMe/TCP subsystem not ended");
        await sleep(RETRY_MS);
      }
  }

  async #endNamespaces(sessionNumber: number, path: string): Promise<void> {
    for (const nqn of this.#sessions.get(sessionNumber) ?? []) {
      const what = `the end of the namespace of ${path} in NVMe/TCP subsystem ${nqn}`;
      await this.#options.verbs.run(nqn, { what, script: END_NAMESPACES, args: [nqn, path] });
    }
  }

  async #tryToEnd(sessionNumber: number): Promise<void> {
    const { verbs } = this.#options;
    if (!this.#isFound) await this.#look();
    const subsystems = this.#sessions.get(sessionNumber) ?? new Set();
    for (const nqn of subsystems) {
      await verbs.run(nqn, { what: `the end of NVMe/TCP subsystem ${nqn}`, script: END, args: [nqn] });
      subsystems.delete(nqn);
    }
    if (subsystems.size === 0) this.#sessions.delete(sessionNumber);
  }

  /** Ends all subsystems of an agent that does not run. */
  async endAll(): Promise<void> {
    await this.#look();
    for (const sessionNumber of this.sessions) await this.#tryToEnd(sessionNumber);
  }
}

const CONFIG = "/sys/kernel/config/nvmet";

const LIST = `
cd ${CONFIG} 2>/dev/null || exit 0
for each in "subsystems/$1"*; do
  if [ -d "$each" ]; then echo "\${each#subsystems/}"; fi
done`;

/** Makes the port, which listens while it has subsystems. */
const OPEN_PORT = `
host=$1 number=$2 family=$3 port=ports/$4
cd ${CONFIG}
[ -d "$port" ] || mkdir "$port"
read -r now < "$port/addr_traddr" || now=
if [ "$now" = "$host" ]; then
  read -r now < "$port/addr_trsvcid" || now=
  if [ "$now" = "$number" ]; then exit 0; fi
fi
echo tcp > "$port/addr_trtype"
echo "$family" > "$port/addr_adrfam"
echo "$host" > "$port/addr_traddr"
echo "$number" > "$port/addr_trsvcid"`;

/**
 * Makes a namespace. The leg is compared before the port leads to it, because its number may be another leg's when the agent
 * that has begun this is dead.
 */
const SHARE = `
nqn=$1 uuid=$2 nguid=$3 path=$4 leg=$5 port=$6
cd ${CONFIG}
subsystem=subsystems/$nqn
[ -d "$subsystem" ] || mkdir "$subsystem"
echo 1 > "$subsystem/attr_allow_any_host"
namespace=
for each in "$subsystem"/namespaces/*; do
  if [ -d "$each" ]; then
    read -r now < "$each/device_uuid"
    if [ "$now" = "$uuid" ]; then namespace=$each; fi
  fi
done
if [ -z "$namespace" ]; then
  id=1
  while [ -d "$subsystem/namespaces/$id" ]; do id=$((id + 1)); done
  namespace=$subsystem/namespaces/$id
  mkdir "$namespace"
  echo "$uuid" > "$namespace/device_uuid"
  echo "$nguid" > "$namespace/device_nguid"
fi
read -r enabled < "$namespace/enable"
if [ "$enabled" = 1 ]; then
  read -r now < "$namespace/device_path"
  if [ "$now" != "$path" ]; then echo "the namespace has $now" >&2; exit 1; fi
  echo 1 > "$namespace/revalidate_size"
else
  echo "$path" > "$namespace/device_path"
  echo 1 > "$namespace/enable"
  read -r now < "/sys/block/\${path#/dev/}/dm/uuid"
  if [ "$now" != "$leg" ]; then
    echo 0 > "$namespace/enable"
    echo "$path is another device meanwhile" >&2
    exit 1
  fi
fi
[ -e "ports/$port/subsystems/$nqn" ] || ln -s "${CONFIG}/$subsystem" "ports/$port/subsystems/$nqn"`;

/** Ends the controllers first: a command whose data a holder never sends would hold up the end of its namespace. */
const END = `
cd ${CONFIG} 2>/dev/null || exit 0
for link in ports/*/subsystems/"$1"; do
  if [ -L "$link" ]; then rm "$link"; fi
done
for each in subsystems/"$1"/namespaces/*; do
  if [ -d "$each" ]; then
    echo 0 > "$each/enable"
    rmdir "$each"
  fi
done
if [ -d "subsystems/$1" ]; then rmdir "subsystems/$1"; fi`;

const END_NAMESPACES = `
for each in ${CONFIG}/subsystems/"$1"/namespaces/*; do
  if [ -d "$each" ]; then
    read -r now < "$each/device_path"
    if [ "$now" = "$2" ]; then
      echo 0 > "$each/enable"
      rmdir "$each"
    fi
  fi
done`;
