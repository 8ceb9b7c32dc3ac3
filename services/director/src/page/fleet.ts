import type { Device, Disk, Host } from "@diskmesh/api/registry";
import { messageOf } from "@diskmesh/domain";
import type { DeviceLetter, SourceRow } from "@diskmesh/page/rows";
import type { Clock } from "@diskmesh/service";
import type { RegistryClients } from "../explain/registries.js";
import { deviceRow, diskRow, hostRow, letterOf } from "./fleet-rows.js";
import type { RowCache } from "./row-cache.js";
import {
  causesOfRegistry,
  clockCause,
  massSilenceCause,
  type SourceCause,
  silenceCause,
  sourceRow,
} from "./source-row.js";

/** Deadline of the lists, which are long at the first read. */
const LIST_DEADLINE_MS = 30_000;
/** Deadline of short reads. They also detect a registry that hangs. */
const READ_DEADLINE_MS = 3_000;
/** Interval of reads of the capacity, for which the registry goes through all devices, and of its alerts. */
const CAPACITY_INTERVAL_MS = 10_000;

type Call = { readonly signal: AbortSignal; readonly deadlineMs: number };

interface Message {
  readonly update?: { readonly $case: string; readonly value: unknown } | undefined;
  readonly resumeToken: string;
}

/** A list of a registry. */
interface List<Thing> {
  /** Streams what has changed since the token, or all things. */
  readonly open: (resumeToken: string, call: Call) => AsyncIterable<Message>;
  readonly nameOf: (thing: Thing) => string;
  readonly set: (name: string, thing: Thing | undefined) => void;
}

/** Reads what has changed in a disk registry into the page's rows. */
export class Fleet {
  readonly #hosts = new Map<string, Host>();
  /** Devices by host id, then by device id. */
  readonly #devices = new Map<string, Map<string, DeviceLetter>>();
  readonly #hostOfDevice = new Map<string, string>();
  /** Hosts whose rows are outdated. */
  readonly #changedHosts = new Set<string>();
  readonly #readLists: readonly ((call: Call) => Promise<void>)[];
  /** Time of the first failed read since the last success. */
  #silentSinceMs: number | undefined;
  #state: SourceRow["state"] = "reading";
  /** The read under way, or the last one. */
  #reading: Promise<void> = Promise.resolve();
  readonly #pools = new Set<string>();
  #capacityReadAtMs = Number.NEGATIVE_INFINITY;
  /** Set while the clocks of the director and the registry differ. */
  #clocks: SourceCause | undefined;
  #alerts: readonly SourceCause[] = [];
  #alertsReadAtMs = Number.NEGATIVE_INFINITY;

  constructor(
    /** The registry's display name. */
    private readonly name: string,
    private readonly clients: RegistryClients,
    private readonly rowCache: RowCache,
    private readonly clock: Clock,
  ) {
    const { registry } = clients;
    const untilNow = true;
    this.#readLists = [
      changesOf<Host>({
        open: (resumeToken, call) => registry.watchHosts({ resumeToken, untilNow }, call),
        nameOf: ({ hostId }) => hostId,
        set: (hostId, host) => this.#setHost(hostId, host),
      }),
      changesOf<Device>({
        open: (resumeToken, call) => registry.watchDevices({ resumeToken, untilNow }, call),
        nameOf: ({ deviceId }) => deviceId,
        set: (deviceId, device) => this.#setDevice(deviceId, device),
      }),
      changesOf<Disk>({
        open: (resumeToken, call) => registry.watchDisks({ resumeToken, untilNow, showDeleted: true }, call),
        nameOf: ({ diskId }) => diskId,
        set: (diskId, disk) => rowCache.set("disk", diskId, disk && diskRow(disk)),
      }),
    ];
    rowCache.set("source", name, { state: "reading" });
  }

  /** Reads what has changed. A failure becomes the registry's own row; throws only when the signal aborts. */
  read(signal: AbortSignal): Promise<void> {
    this.#reading = this.#read(signal);
    return this.#reading;
  }

  async #read(signal: AbortSignal): Promise<void> {
    const { rowCache, name, clock } = this;
    try {
      const { massSilence, serverTime } = (await this.#readAll(signal)) ?? {};
      this.#state = "live";
      this.#silentSinceMs = undefined;
      const silence = massSilence === undefined ? [] : [massSilenceCause(massSilence)];
      const differs = clockCause(serverTime, clock.nowMs());
      // The times differ at each read; the first ones stay, with their beginning.
      this.#clocks = differs && (this.#clocks ?? differs);
      const clocks = this.#clocks === undefined ? [] : [this.#clocks];
      rowCache.set("source", name, sourceRow("live", [...clocks, ...silence, ...(await this.#alertsNow(signal))]));
    } catch (error) {
      signal.throwIfAborted();
      this.#state = "silent";
      this.#silentSinceMs ??= clock.nowMs();
      const untold = silenceCause(messageOf(error), this.#silentSinceMs);
      const [cause = untold] = await causesOfRegistry(this.clients, signal);
      rowCache.set("source", name, sourceRow("silent", [cause]));
    }
    for (const hostId of this.#changedHosts) this.#showHost(hostId);
    this.#changedHosts.clear();
  }

  /**
   * Returns the cids of the VMs that are hosts of this registry, after the read under way; undefined while not all hosts
   * are known.
   */
  async vmCids(): Promise<readonly string[] | undefined> {
    if (this.#state !== "silent") await this.#reading.catch(() => {});
    if (this.#state !== "live") return undefined;
    return [...this.#hosts.values()].flatMap(({ assignment }) => assignment?.vmCid ?? []);
  }

  /** Returns an answer with the present mass silence and the registry's time. Throws the first failure, after which the other reads have ended, too. */
  async #readAll(signal: AbortSignal) {
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    const failures: unknown[] = [];
    const noted = <Answer>(reading: Promise<Answer>): Promise<Answer | undefined> =>
      reading.catch((error: unknown) => {
        failures.push(error);
        stop.abort();
        return undefined;
      });
    const short = { signal: either, deadlineMs: READ_DEADLINE_MS };
    const [hosts] = await Promise.all([
      noted(this.clients.registry.listHosts({ pageSize: 1 }, short)),
      // The last capacity stays shown while it cannot be read: the other reads say whether the registry answers.
      this.#readCapacity(short).catch(() => {}),
      ...this.#readLists.map((read) => noted(read({ signal: either, deadlineMs: LIST_DEADLINE_MS }))),
    ]);
    if (failures.length > 0) throw failures[0];
    return hosts;
  }

  /** Returns what a registry that serves warns of. Read seldom, because warnings last. */
  async #alertsNow(signal: AbortSignal): Promise<readonly SourceCause[]> {
    const { clock } = this;
    if (clock.monotonicMs() - this.#alertsReadAtMs < CAPACITY_INTERVAL_MS) return this.#alerts;
    this.#alertsReadAtMs = clock.monotonicMs();
    this.#alerts = await causesOfRegistry(this.clients, signal, ({ reason }) => reason === "ALERT");
    return this.#alerts;
  }

  async #readCapacity(call: Call): Promise<void> {
    const { rowCache, name, clock } = this;
    if (clock.monotonicMs() - this.#capacityReadAtMs < CAPACITY_INTERVAL_MS) return;
    const { pools } = await this.clients.registry.getCapacity({}, call);
    this.#capacityReadAtMs = clock.monotonicMs();
    const rows = new Map(
      pools.map((each) => [`${each.az}/${each.pool}${name === "disk-registry" ? "" : ` (${name})`}`, each]),
    );
    for (const key of this.#pools) if (!rows.has(key) && this.#pools.delete(key)) rowCache.set("pool", key, undefined);
    for (const [key, row] of rows) {
      rowCache.set("pool", key, row);
      this.#pools.add(key);
    }
  }

  #setHost(hostId: string, host: Host | undefined): void {
    if (host === undefined) this.#hosts.delete(hostId);
    else this.#hosts.set(hostId, host);
    this.#changedHosts.add(hostId);
  }

  #setDevice(deviceId: string, device: Device | undefined): void {
    const hostId = device?.hostId ?? this.#hostOfDevice.get(deviceId) ?? "";
    const devices = this.#devices.get(hostId) ?? new Map<string, DeviceLetter>();
    this.#devices.set(hostId, devices);
    if (device === undefined) {
      devices.delete(deviceId);
      if (devices.size === 0) this.#devices.delete(hostId);
      this.#hostOfDevice.delete(deviceId);
    } else {
      devices.set(deviceId, letterOf(device));
      this.#hostOfDevice.set(deviceId, hostId);
    }
    this.rowCache.set("device", deviceId, device && deviceRow(device));
    this.#changedHosts.add(hostId);
  }

  #showHost(hostId: string): void {
    const host = this.#hosts.get(hostId);
    const devices = [...(this.#devices.get(hostId) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
    this.rowCache.set("host", hostId, host && hostRow(host, devices.map(([, letter]) => letter).join("")));
  }
}

/** Returns the function that sets what has changed since its last call. A broken call is repeated from the last token. */
function changesOf<Thing>({ open, nameOf, set }: List<Thing>): (call: Call) => Promise<void> {
  const known = new Set<string>();
  let token = "";
  return async (call) => {
    /** Names in the present snapshot. */
    let seen: Set<string> | undefined;
    for await (const { update, resumeToken } of open(token, call)) {
      const { $case, value } = update ?? {};
      if ($case === "snapshotBegin") seen = new Set();
      else if ($case === "snapshotEnd") {
        for (const name of known) if (seen?.has(name) === false && known.delete(name)) set(name, undefined);
        seen = undefined;
      } else if ($case?.startsWith("removed")) {
        if (known.delete(value as string)) set(value as string, undefined);
      } else if ($case !== undefined) {
        const name = nameOf(value as Thing);
        known.add(name);
        seen?.add(name);
        set(name, value as Thing);
      }
      if (resumeToken !== "") token = resumeToken;
    }
  };
}
