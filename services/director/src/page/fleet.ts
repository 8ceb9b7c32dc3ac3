import { SubjectKind } from "@diskmesh/api/common";
import type { Device, Disk, Host } from "@diskmesh/api/registry";
import { backoffMs, messageOf, TimeoutError } from "@diskmesh/domain";
import type { DeviceLetter } from "@diskmesh/page/rows";
import type { Clock } from "@diskmesh/service";
import type { RegistryClients } from "../explain/registries.js";
import type { Board } from "./board.js";
import { deviceRow, diskRow, hostRow, letterOf } from "./fleet-rows.js";
import { causeOf, massSilenceCause, type SourceCause, sourceRow } from "./source-row.js";

const BACKOFF = { minDelayMs: 250, maxDelayMs: 5_000 };
/** Then the registry is asked to go on from there. */
const WATCH_DEADLINE_MS = 3_600_000;
/** A watch goes on in silence while its registry can read nothing: so often it is asked for something to read. */
const READ_INTERVAL_MS = 1_000;
const READ_DEADLINE_MS = 3_000;
/** So long it is asked what it lacks when it cannot be watched. */
const ITSELF_DEADLINE_MS = 2_000;
/** Hosts whose devices change are shown together so often: each once, however many of its devices are told of. */
const SHOW_INTERVAL_MS = 50;

const READS = "reads";

type Update<Thing> =
  | { readonly $case: "snapshotBegin" | "snapshotEnd" }
  | { readonly $case: "thing"; readonly name: string; readonly value: Thing }
  | { readonly $case: "gone"; readonly name: string };

/** The kind of object that one watch of a registry delivers. */
interface Watched<Thing> {
  readonly what: string;
  open(
    resumeToken: string,
  ): AsyncIterable<{ readonly update: Update<Thing> | undefined; readonly resumeToken: string }>;
  set(name: string, thing: Thing | undefined): void;
}

/** Keeps the board's rows of what one disk registry knows up, until the signal aborts. */
export class Fleet {
  readonly #hosts = new Map<string, Host>();
  /** Devices by host, then by id. */
  readonly #devices = new Map<string, Map<string, DeviceLetter>>();
  readonly #hostOfDevice = new Map<string, string>();
  /** Hosts that are shown with the next ones. */
  readonly #unshown = new Set<string>();
  /** Lists that are not read yet, or cannot be. */
  readonly #missing = new Map<string, string>();
  /** The registry's own report of what it lacks, while it cannot be watched. */
  #itself: SourceCause | undefined;
  #massSilence: SourceCause | undefined;

  constructor(
    /** How people call the registry. */
    private readonly name: string,
    private readonly clients: RegistryClients,
    private readonly board: Board,
    private readonly clock: Clock,
    private readonly signal: AbortSignal,
  ) {}

  start(): void {
    const { registry } = this.clients;
    const { signal } = this;
    const call = { signal, deadlineMs: WATCH_DEADLINE_MS };
    void this.#keepReading();
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
      set: (diskId, disk) => this.board.set("disk", diskId, disk && diskRow(disk)),
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
        // Its own deadline is no failure: whoever has everything by then only asks for what comes next.
        const goesOn = error instanceof TimeoutError && resumeToken !== "" && !this.#missing.has(what);
        if (!goesOn) {
          this.#lacks(what, messageOf(error));
          await this.#askItself();
          // A watch that is resumed says nothing until something changes: only a new one shows that all is known again.
          resumeToken = "";
        }
      }
      // A stream that ends at once, as of a registry that stops, may do so again.
      await this.clock.sleep(backoffMs(failures++, BACKOFF, Math.random()), signal).catch(() => {});
    }
  }

  /** Returns the CPIs' ids of the VMs that its hosts are; undefined while not all hosts are known. */
  vmCids(): readonly string[] | undefined {
    if (this.#missing.size > 0) return undefined;
    return [...this.#hosts.values()].flatMap(({ assignment }) => assignment?.vmCid ?? []);
  }

  /** Empty: it is being read; undefined: it is known. */
  #lacks(what: string, why: string | undefined): void {
    if (why === undefined) this.#missing.delete(what);
    else this.#missing.set(what, why);
    if (this.#missing.size === 0) this.#itself = undefined;
    this.#showItself();
  }

  /** Also who does not lead says what it lacks, and for whom it stands by. */
  async #askItself(): Promise<void> {
    const { signal } = this;
    const subject = { kind: SubjectKind.SERVICE, name: "disk-registry" };
    try {
      const { causes } = await this.clients.admin.explain({ subject }, { signal, deadlineMs: ITSELF_DEADLINE_MS });
      this.#itself = causes[0] && causeOf(causes[0]);
    } catch {
      // That it does not answer is what is shown.
      this.#itself = undefined;
    }
    if (!signal.aborted) this.#showItself();
  }

  #showItself(): void {
    const silent = [...this.#missing].filter(([, each]) => each !== "").map(([each, text]) => `${each}: ${text}`);
    const state = silent.length > 0 ? "silent" : this.#missing.size > 0 ? "reading" : "live";
    const untold = { message: silent.join("; "), sinceMs: undefined, cures: [] };
    const cause = state === "silent" ? (this.#itself ?? untold) : this.#massSilence;
    this.board.set("source", this.name, sourceRow(state, cause === undefined ? [] : [cause]));
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
    this.board.set("device", deviceId, device && deviceRow(device));
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
      this.board.set("host", hostId, undefined);
      return;
    }
    const devices = [...(this.#devices.get(hostId) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
    this.board.set("host", hostId, hostRow(host, devices.map(([, letter]) => letter).join("")));
  }
}

type Messages = AsyncIterable<{
  readonly update?: { readonly $case: string; readonly value: unknown } | undefined;
  readonly resumeToken: string;
}>;

/** The messages of any of the three watches, told alike. */
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
