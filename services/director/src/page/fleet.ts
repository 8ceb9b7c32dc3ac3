import type { Device, Disk, Host } from "@diskmesh/api/registry";
import { backoffMs, messageOf, TimeoutError } from "@diskmesh/domain";
import type { DeviceLetter } from "@diskmesh/page/rows";
import type { Clock } from "@diskmesh/service";
import type { RegistryClients } from "../explain/registries.js";
import { deviceRow, diskRow, hostRow, letterOf } from "./fleet-rows.js";
import type { RowCache } from "./row-cache.js";
import { causeOfRegistry, massSilenceCause, type SourceCause, sourceRow } from "./source-row.js";

const BACKOFF = { minDelayMs: 250, maxDelayMs: 5_000 };
/** Deadline of a watch, after which the watch is resumed by its token. */
const WATCH_DEADLINE_MS = 3_600_000;
/**
 * Interval of probe reads. A watch stays open silently while the registry cannot read its data, so a read detects the
 * outage.
 */
const READ_INTERVAL_MS = 1_000;
const READ_DEADLINE_MS = 3_000;
/**
 * Interval at which changed hosts are shown in a batch, so that each host is shown once for all changes of its devices.
 */
const SHOW_INTERVAL_MS = 50;

/** Interval of capacity reads, for which the registry goes through all devices. */
const CAPACITY_INTERVAL_MS = 10_000;

const READS = "reads";

type Update<Thing> =
  | { readonly $case: "snapshotBegin" | "snapshotEnd" }
  | { readonly $case: "thing"; readonly name: string; readonly value: Thing }
  | { readonly $case: "gone"; readonly name: string };

/** The kind of objects that a watch delivers. */
interface Watched<Thing> {
  readonly what: string;
  open(
    resumeToken: string,
  ): AsyncIterable<{ readonly update: Update<Thing> | undefined; readonly resumeToken: string }>;
  set(name: string, thing: Thing | undefined): void;
}

/** Keeps the cached rows of a disk registry current until the signal aborts. */
export class Fleet {
  readonly #hosts = new Map<string, Host>();
  /** Devices by host id, then by device id. */
  readonly #devices = new Map<string, Map<string, DeviceLetter>>();
  readonly #hostOfDevice = new Map<string, string>();
  /** Hosts to show in the next batch. */
  readonly #unshown = new Set<string>();
  /**
   * The lists that are not known, by name. The value is the error of the failed read, or empty while the list is being
   * read.
   */
  readonly #missing = new Map<string, string>();
  /** Time of the first failed read since the registry was last live. */
  #silentSinceMs: number | undefined;
  /** The registry's own explanation while it cannot be watched. */
  #itself: SourceCause | undefined;
  #massSilence: SourceCause | undefined;

  constructor(
    /** The registry's display name. */
    private readonly name: string,
    private readonly clients: RegistryClients,
    private readonly rowCache: RowCache,
    private readonly clock: Clock,
    private readonly signal: AbortSignal,
  ) {}

  start(): void {
    const { registry } = this.clients;
    const { signal } = this;
    const call = { signal, deadlineMs: WATCH_DEADLINE_MS };
    void this.#keepReading();
    void this.#keepCapacity();
    void this.#follow<Host>({
      what: "hosts",
      open: (resumeToken) =>
        named(registry.watchHosts({ resumeToken }, call), "host", "removedHostId", ({ hostId }: Host) => hostId),
      set: (hostId, host) => this.#setHost(hostId, host),
    });
    void this.#follow<Device>({
      what: "devices",
      open: (resumeToken) =>
        named(
          registry.watchDevices({ resumeToken }, call),
          "device",
          "removedDeviceId",
          ({ deviceId }: Device) => deviceId,
        ),
      set: (deviceId, device) => this.#setDevice(deviceId, device),
    });
    void this.#follow<Disk>({
      what: "disks",
      open: (resumeToken) =>
        named(registry.watchDisks({ resumeToken }, call), "disk", "removedDiskId", ({ diskId }: Disk) => diskId),
      set: (diskId, disk) => this.rowCache.set("disk", diskId, disk && diskRow(disk)),
    });
  }

  async #keepReading(): Promise<void> {
    const { signal, clock } = this;
    while (!signal.aborted) {
      await clock.sleep(READ_INTERVAL_MS, signal).catch(() => {});
      try {
        const once = { signal, deadlineMs: READ_DEADLINE_MS };
        const { massSilence } = await this.clients.registry.listHosts({ pageSize: 1 }, once);
        this.#massSilence = massSilence && massSilenceCause(massSilence);
        this.#lacks(READS, undefined);
      } catch (error) {
        if (signal.aborted) return;
        this.#lacks(READS, messageOf(error));
        await this.#askItself();
      }
    }
  }

  /** The last capacity stays shown while the registry does not answer, which the registry's own row says. */
  async #keepCapacity(): Promise<void> {
    const { signal, clock, rowCache, name } = this;
    const shown = new Set<string>();
    while (!signal.aborted) {
      try {
        const { pools } = await this.clients.registry.getCapacity({}, { signal, deadlineMs: READ_DEADLINE_MS });
        const rows = new Map(
          pools.map((each) => [`${each.az}/${each.pool}${name === "disk-registry" ? "" : ` (${name})`}`, each]),
        );
        for (const [key, row] of rows) {
          rowCache.set("pool", key, row);
          shown.add(key);
        }
        for (const key of shown) if (!rows.has(key) && shown.delete(key)) rowCache.set("pool", key, undefined);
      } catch {
        if (signal.aborted) return;
      }
      await clock.sleep(CAPACITY_INTERVAL_MS, signal).catch(() => {});
    }
  }

  async #follow<Thing>({ what, open, set }: Watched<Thing>): Promise<void> {
    const { signal } = this;
    let resumeToken = "";
    let seen: Set<string> | undefined;
    const known = new Set<string>();
    this.#lacks(what, "");
    for (let failures = 0; !signal.aborted; ) {
      try {
        for await (const { update, resumeToken: token } of open(resumeToken)) {
          if (signal.aborted) return;
          if (token !== "") resumeToken = token;
          if (update?.$case === "snapshotBegin") seen = new Set();
          if (update?.$case === "thing") {
            known.add(update.name);
            seen?.add(update.name);
            set(update.name, update.value);
          }
          if (update?.$case === "gone" && known.delete(update.name)) set(update.name, undefined);
          if (update?.$case === "snapshotEnd") {
            for (const name of known) if (seen?.has(name) === false && known.delete(name)) set(name, undefined);
            seen = undefined;
          }
          if (seen === undefined) this.#lacks(what, undefined);
          failures = 0;
        }
      } catch (error) {
        if (signal.aborted) return;
        // A watch that ends at its own deadline after a complete snapshot is resumed by its token.
        const goesOn = error instanceof TimeoutError && resumeToken !== "" && !this.#missing.has(what);
        if (!goesOn) {
          this.#lacks(what, messageOf(error));
          await this.#askItself();
          // A resumed watch is silent until a change. Only a new watch with a snapshot shows that all objects are known
          // again.
          resumeToken = "";
        }
      }
      // Backs off, because a stream of a stopping registry may end at once again.
      await this.clock.sleep(backoffMs(failures++, BACKOFF, Math.random()), signal).catch(() => {});
    }
  }

  /** Returns the cids of the VMs that are hosts of this registry; undefined while not all hosts are known. */
  vmCids(): readonly string[] | undefined {
    if (this.#missing.size > 0) return undefined;
    return [...this.#hosts.values()].flatMap(({ assignment }) => assignment?.vmCid ?? []);
  }

  /**
   * Records a list's state. `why` is the error of a failed read, empty while the list is being read, and undefined once
   * the list is known.
   */
  #lacks(what: string, why: string | undefined): void {
    if (why === undefined) this.#missing.delete(what);
    else this.#missing.set(what, why);
    if (this.#missing.size === 0) this.#itself = undefined;
    if (this.#missing.size === 0) this.#silentSinceMs = undefined;
    else if (why) this.#silentSinceMs ??= this.clock.nowMs();
    this.#showItself();
  }

  /** Requests the registry's explanation. Without one, only the errors of the lists are shown. */
  async #askItself(): Promise<void> {
    this.#itself = await causeOfRegistry(this.clients, this.signal);
    if (!this.signal.aborted) this.#showItself();
  }

  #showItself(): void {
    const silent = [...this.#missing].filter(([, each]) => each !== "").map(([each, text]) => `${each}: ${text}`);
    const state = silent.length > 0 ? "silent" : this.#missing.size > 0 ? "reading" : "live";
    const untold = { message: silent.join("; "), sinceMs: this.#silentSinceMs, cures: [] };
    const cause = state === "silent" ? (this.#itself ?? untold) : this.#massSilence;
    this.rowCache.set("source", this.name, sourceRow(state, cause === undefined ? [] : [cause]));
  }

  #setHost(hostId: string, host: Host | undefined): void {
    if (host === undefined) this.#hosts.delete(hostId);
    else this.#hosts.set(hostId, host);
    this.#showSoon(hostId);
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
    this.#showSoon(hostId);
  }

  #showSoon(hostId: string): void {
    const isAwaited = this.#unshown.size > 0;
    this.#unshown.add(hostId);
    if (isAwaited) return;
    const show = (): void => {
      const hostIds = [...this.#unshown];
      this.#unshown.clear();
      for (const each of hostIds) this.#showHost(each);
    };
    this.clock.sleep(SHOW_INTERVAL_MS, this.signal).then(show, () => {});
  }

  #showHost(hostId: string): void {
    const host = this.#hosts.get(hostId);
    if (host === undefined) {
      this.rowCache.set("host", hostId, undefined);
      return;
    }
    const devices = [...(this.#devices.get(hostId) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
    this.rowCache.set("host", hostId, hostRow(host, devices.map(([, letter]) => letter).join("")));
  }
}

type Messages = AsyncIterable<{
  readonly update?: { readonly $case: string; readonly value: unknown } | undefined;
  readonly resumeToken: string;
}>;

/** Converts the messages of the three watches to a common form. */
async function* named<Thing>(
  messages: Messages,
  thingCase: string,
  goneCase: string,
  nameOf: (thing: Thing) => string,
): AsyncGenerator<{ readonly update: Update<Thing> | undefined; readonly resumeToken: string }> {
  for await (const { update, resumeToken } of messages) {
    if (update?.$case === thingCase) {
      const value = update.value as Thing;
      yield { update: { $case: "thing", name: nameOf(value), value }, resumeToken };
    } else if (update?.$case === goneCase) yield { update: { $case: "gone", name: String(update.value) }, resumeToken };
    else if (update?.$case === "snapshotBegin" || update?.$case === "snapshotEnd")
      yield { update: { $case: update.$case }, resumeToken };
  }
}
