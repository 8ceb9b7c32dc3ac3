import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { type HostId, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import { SECTOR_BYTES } from "../model/mapped-devices.js";
import {
  connectLine,
  initiatorOf,
  isInitiator,
  isSubsystemOf,
  type NamespaceName,
  type NvmeAddress,
  namespaceUuid,
  parseNqn,
  startOfNguid,
} from "./nvme-names.js";
import type { Verbs } from "./verbs.js";

/** Maximum wait in ms for a namespace of a connection, which the kernel looks for in the background. */
const FIND_TIMEOUT_MS = 10_000;
const FIND_POLL_MS = 10;
const CONTROLLERS = "/sys/class/nvme";
const MULTIPATH = "/sys/module/nvme_core/parameters/multipath";

interface NvmeHostOptions {
  readonly hostId: HostId;
  readonly verbs: Verbs;
  /** Time in ms that I/O waits for a connection before it fails. */
  readonly failAfterMs: number;
  readonly log: Logger;
}

/** A namespace that this host's kernel has as a block device. */
export interface FoundNamespace {
  readonly nqn: string;
  /** Number of the block device, such as `259:1`. */
  readonly number: string;
  /** Byte of the device at which the namespace begins. */
  readonly startBytes: number;
  readonly sizeBytes: number;
}

interface Controller {
  readonly name: string;
  readonly nqn: string;
  readonly initiator: string;
  /** Word of the kernel, for example `live` or `connecting`. */
  readonly state: string;
}

/** Connects this host's kernel to the subsystems of other hosts. sysfs is the only record of the connections. */
export class NvmeHost {
  readonly #options: NvmeHostOptions;

  constructor(options: NvmeHostOptions) {
    this.#options = options;
  }

  /** Returns the block device of a namespace, in a given subsystem or any; undefined while the kernel has none. */
  async find(name: NamespaceName, subsystem?: string): Promise<FoundNamespace | undefined> {
    for (const disk of (await namesIn("/sys/block")).filter((each) => /^nvme\d+n\d+$/.test(each))) {
      const nqn = await attribute(`/sys/block/${disk}/device/subsysnqn`);
      if (!isSubsystemOf(nqn, name) || nqn !== (subsystem ?? nqn)) continue;
      if ((await attribute(`/sys/block/${disk}/uuid`)) !== namespaceUuid(nqn, name)) continue;
      const startBytes = startOfNguid(nqn, name, await attribute(`/sys/block/${disk}/nguid`));
      if (startBytes === undefined) continue;
      const number = await attribute(`/sys/block/${disk}/dev`);
      const sizeBytes = SECTOR_BYTES * Number(await attribute(`/sys/block/${disk}/size`));
      if (number !== "") return { nqn, number, startBytes, sizeBytes };
    }
    return undefined;
  }

  /**
   * Connects to a subsystem unless this host is connected, and returns the block device of a namespace that reaches to
   * `endBytes` of the device. Throws UnavailableError when none appears.
   */
  async connect(
    name: NamespaceName,
    target: { readonly nqn: string; readonly address: NvmeAddress },
    endBytes: number,
  ): Promise<FoundNamespace> {
    const { hostId, verbs, failAfterMs } = this.#options;
    const { nqn } = target;
    const initiator = initiatorOf(name.fleet, hostId);
    const what = `the connection to NVMe/TCP subsystem ${nqn}`;
    const args = [nqn, initiator.nqn, connectLine(target, initiator, failAfterMs)];
    await verbs.run(nqn, { what, script: CONNECT, args });
    const untilMs = performance.now() + FIND_TIMEOUT_MS;
    while (performance.now() < untilMs) {
      const found = await this.find(name, nqn);
      if (found !== undefined && found.startBytes + found.sizeBytes >= endBytes) return found;
      await sleep(FIND_POLL_MS);
    }
    throw new UnavailableError(
      `device ${name.deviceId} of host ${name.hostId} did not appear at ${target.address.host}:${target.address.port} within ${FIND_TIMEOUT_MS} ms`,
      { about: { device_id: name.deviceId } },
    );
  }

  /** Returns why I/O of the namespace waits or fails; undefined when the kernel is connected. */
  async problemOf(name: NamespaceName): Promise<string | undefined> {
    const states = (await this.#controllers()).filter(({ nqn }) => isSubsystemOf(nqn, name)).map(({ state }) => state);
    if (states.includes("live")) return undefined;
    return `host ${name.hostId} of device ${name.deviceId} cannot be reached by NVMe/TCP (${states[0] ?? "not connected"})`;
  }

  /** Returns the hosts to whose devices this host is connected, or connects again. */
  async hosts(): Promise<readonly HostId[]> {
    return (await this.#controllers()).flatMap(({ nqn }) => parseNqn(nqn)?.hostId ?? []);
  }

  /** Ends the connections to the host of a namespace in its session. */
  async disconnect(name: NamespaceName): Promise<void> {
    await this.#disconnect((_, nqn) => isSubsystemOf(nqn, name));
  }

  /** Ends the connections of sessions that this host does not serve. */
  async endLeftovers(isServed: (sessionNumber: number) => boolean): Promise<void> {
    await this.#disconnect((session) => !isServed(session));
  }

  async #disconnect(isEnding: (sessionNumber: number, nqn: string) => boolean): Promise<void> {
    const { verbs, log } = this.#options;
    const ends = (await this.#controllers()).map(async ({ name, nqn }) => {
      const { sessionNumber } = parseNqn(nqn) ?? {};
      if (sessionNumber === undefined || !isEnding(sessionNumber, nqn)) return;
      const what = `the end of the connection to NVMe/TCP subsystem ${nqn}`;
      try {
        await verbs.run(nqn, { what, script: DISCONNECT, args: [name, nqn] });
      } catch (error) {
        log.error({ nqn, error: messageOf(error) }, "NVMe/TCP connection not ended");
      }
    });
    await Promise.all(ends);
  }

  /** Returns the connections of this agent. */
  async #controllers(): Promise<readonly Controller[]> {
    const names = (await namesIn(CONTROLLERS)).filter((name) => /^nvme\d+$/.test(name));
    const found = await Promise.all(
      names.map(async (name) => ({
        name,
        nqn: await attribute(`${CONTROLLERS}/${name}/subsysnqn`),
        initiator: await attribute(`${CONTROLLERS}/${name}/hostnqn`),
        state: await attribute(`${CONTROLLERS}/${name}/state`),
      })),
    );
    return found.filter(({ initiator }) => isInitiator(initiator, this.#options.hostId));
  }
}

/** Connects unless this host is connected to the subsystem, and makes the kernel look for new namespaces otherwise. */
const CONNECT = `
nqn=$1 initiator=$2 line=$3
for each in ${CONTROLLERS}/*; do
  if [ -e "$each/hostnqn" ]; then
    read -r now < "$each/subsysnqn" || continue
    read -r by < "$each/hostnqn" || continue
    if [ "$now $by" = "$nqn $initiator" ]; then
      echo 1 > "$each/rescan_controller"
      exit 0
    fi
  fi
done
printf %s "$line" > /dev/nvme-fabrics`;

/** Compares the subsystem, because a controller's name may be another one's meanwhile. */
const DISCONNECT = `
cd "${CONTROLLERS}/$1" 2>/dev/null || exit 0
read -r now < subsysnqn
if [ "$now" = "$2" ]; then echo 1 > delete_controller; fi`;

const PREPARE = `
[ -d /sys/kernel/config/nvmet ] || modprobe nvmet-tcp
[ -e /dev/nvme-fabrics ] || modprobe nvme-tcp
if [ ! -d /sys/kernel/config/nvmet ]; then echo "/sys/kernel/config is not mounted" >&2; exit 1; fi`;

/** Loads what the kernel needs on both hosts. Returns why this host has no NVMe/TCP; undefined when it has. */
export function whyNoNvme(verbs: Verbs): Promise<string | undefined> {
  const verb = { what: "the load of the modules nvmet-tcp and nvme-tcp", script: PREPARE, args: [] };
  return verbs.run("modules", verb).then(whyNoFlushes, messageOf);
}

/**
 * Returns why a flush over NVMe/TCP could be untrue; undefined when it is true, or no module is loaded. With NVMe multipath,
 * Linux acknowledges a flush that is in flight when the machine with the drive loses its power.
 */
export async function whyNoFlushes(): Promise<string | undefined> {
  if ((await attribute(MULTIPATH)) !== "Y") return undefined;
  return "NVMe multipath can acknowledge writes that a power cut of the other host has lost: boot with nvme_core.multipath=N";
}

function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((): string[] => []);
}

async function attribute(path: string): Promise<string> {
  return (await readFile(path, "utf8").catch(() => "")).trim();
}
