import { open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { type DeviceId, InvalidStateError, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import { punchHole } from "@diskmesh/file-lock";
import type { Changes, Clock } from "@diskmesh/service";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import type { NvmeTarget, SharedLeg } from "../kernel/nvme-target.js";
import {
  isWholeSectors,
  isWiped,
  linearTable,
  type MappedDevice,
  type MappedRole,
  pathOf,
  SECTOR_BYTES,
  type Segment,
  sizeOfTable,
} from "../model/mapped-devices.js";
import { contains, overlaps, type Run } from "../model/runs.js";
import { FileSyncs } from "./file-syncs.js";
import type { Waiting } from "./in-flight.js";
import type { OpenHandle } from "./open-file.js";

/** The device of legs. */
interface LegsDevice {
  readonly id: DeviceId;
  /** Start of the device on its drive. */
  readonly config: { readonly offsetBytes: number };
  readonly sizeBytes: number;
  /** Returns why a session must no longer have its run; undefined when it may. */
  refusalOf(sessionNumber: number, offsetBytes: number): string | undefined;
  noteLostWrites(): void;
}

interface LegsOptions {
  readonly mapper: DeviceMapper | undefined;
  /** Serves legs to holders on other hosts. Present where a mapper is. */
  readonly nvmeTarget?: NvmeTarget | undefined;
  readonly changes: Changes<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A run in a session, and the guard of the device's drive. */
interface LegOrder {
  readonly sessionNumber: number;
  readonly run: Run;
  /** Number of the guard. */
  readonly guard: string;
}

type LegRole = MappedRole & { readonly kind: "leg" };

interface Leg {
  readonly role: LegRole;
  run: Run;
  /** Number of the leg, after its last change. */
  made: Promise<string>;
  /** Descriptor of the agent's own I/O. */
  opened: Promise<OpenHandle> | undefined;
  /** True while a disk's device lies on the leg. */
  isTaken: boolean;
  /** Monotonic time at which the fence began. */
  fencedSinceMs: number | undefined;
  isWiped: boolean;
  /** Resolves once the leg does not exist any more. */
  readonly gone: Promise<void>;
  readonly noteGone: () => void;
}

const RETRY_MS = 1_000;

/**
 * The legs of a device: a block device for each run and session, where the kernel's device-mapper carries the bytes. The
 * I/O of a session goes through its leg alone, which therefore has no other session's bytes in its page cache. A leg is
 * wiped as soon as the device refuses its session, and a later session waits for the wipe.
 */
export class Legs {
  readonly #device: LegsDevice;
  readonly #options: LegsOptions;
  /** Legs by session and offset. Those that end are here until they are gone. */
  readonly #all = new Map<string, Leg>();
  #isWatched = false;

  constructor(device: LegsDevice, options: LegsOptions) {
    this.#device = device;
    this.#options = options;
  }

  get areThere(): boolean {
    return this.#all.size > 0;
  }

  /** Sessions of the legs that are not gone. */
  get sessions(): readonly number[] {
    return [...this.#all.values()].map(({ role }) => role.sessionNumber);
  }

  /** Returns whether no I/O of lower sessions on the run's bytes is in flight or can begin. */
  areGoneBelow(sessionNumber: number, run: Run): boolean {
    return this.waitingBelow(sessionNumber, run) === undefined;
  }

  /** Returns for how long a leg of a lower session on the run's bytes has been ending; undefined without one. */
  waitingBelow(sessionNumber: number, run: Run): Waiting | undefined {
    for (const leg of this.#all.values())
      if (leg.role.sessionNumber < sessionNumber && !leg.isWiped && overlaps(leg.run, run))
        return { forMs: this.#waitOf(leg), inFlightOperations: 1 };
    return undefined;
  }

  /** Longest time in ms for which a fence has waited for the drive; 0 without a fence that waits. */
  get fencesForMs(): number {
    return Math.max(0, ...[...this.#all.values()].map((leg) => (leg.isWiped ? 0 : this.#waitOf(leg))));
  }

  #waitOf({ fencedSinceMs }: Leg): number {
    const nowMs = this.#options.clock.monotonicMs();
    return nowMs - (fencedSinceMs ?? nowMs);
  }

  /** Notes a leg that a former life of the agent left. */
  enter(found: MappedDevice): void {
    if (found.role.kind !== "leg") return;
    const { offsetBytes } = found.role;
    const run = { offsetBytes, sizeBytes: sizeOfTable(found.table) };
    const leg = this.#note(found.role, run, Promise.resolve(found.number));
    const { mapper, nvmeTarget } = this.#options;
    leg.isTaken = nvmeTarget?.serves(found.role.sessionNumber) ?? false;
    if (isWiped(found)) this.#fence(leg);
    else if (leg.isTaken && mapper !== undefined) nvmeTarget?.noteLeg(leg.role.sessionNumber, mapper.uuidOf(leg.role));
  }

  /**
   * Makes the session's leg the one of a disk's device, and returns the part of the leg with these bytes of the device. The
   * agent's own I/O is refused from then on, because it would have pages of its own.
   */
  async take(order: LegOrder, bytes: Run): Promise<Segment> {
    return segmentOf(await this.#taken(order), bytes);
  }

  /** Makes the session's leg a namespace for its holder on another host. The agent's own I/O is refused from then on. */
  async share(order: LegOrder): Promise<SharedLeg> {
    const leg = await this.#taken(order);
    const { mapper } = this.#options;
    if (mapper === undefined) throw new Error("a leg without device-mapper");
    const check = () => {
      if (leg.fencedSinceMs !== undefined)
        throw new UnavailableError(`session ${order.sessionNumber} of device ${this.#device.id} is ending`);
    };
    return { number: await leg.made, uuid: mapper.uuidOf(leg.role), startBytes: leg.run.offsetBytes, check };
  }

  async #taken(order: LegOrder): Promise<Leg> {
    const leg = await this.#legFor(order);
    leg.isTaken = true;
    const { opened } = leg;
    leg.opened = undefined;
    // The last close drops the pages of the block device.
    const handle = await opened?.catch(() => undefined);
    await handle?.datasync();
    await handle?.close();
    return leg;
  }

  /** Returns the part of the session's leg with these bytes of the device; undefined without a leg, or while it ends. */
  async find(sessionNumber: number, bytes: Run): Promise<Segment | undefined> {
    const leg = this.#at(sessionNumber, bytes.offsetBytes);
    return leg?.fencedSinceMs === undefined ? leg && segmentOf(leg, bytes) : undefined;
  }

  /** Notes that a disk's device of a former life lies on the leg with this byte. */
  noteTaken(sessionNumber: number, offsetBytes: number): void {
    const leg = this.#at(sessionNumber, offsetBytes);
    if (leg !== undefined) leg.isTaken = true;
  }

  /**
   * Returns the descriptor of the agent's own I/O in the session, which is the drive's without a guard. Positions count from
   * the drive's start.
   */
  async handleFor(
    sessionNumber: number,
    { handle, run }: { readonly handle: OpenHandle; readonly run: Run },
  ): Promise<OpenHandle> {
    const { guard } = handle;
    if (guard === undefined) return handle;
    const leg = await this.#legFor({ sessionNumber, run, guard });
    const { id } = this.#device;
    if (leg.isTaken)
      throw new UnavailableError(`the kernel carries session ${sessionNumber} of device ${id}`, {
        about: { device_id: id },
      });
    leg.opened ??= this.#openLeg(leg);
    try {
      return await leg.opened;
    } catch (error) {
      leg.opened = undefined;
      throw error;
    }
  }

  /** Ends the session's leg with this byte. Resolves once no I/O of it is in flight or can begin. */
  async end(sessionNumber: number, offsetBytes: number): Promise<void> {
    const leg = this.#at(sessionNumber, offsetBytes);
    if (leg === undefined) return;
    this.#fence(leg);
    while (!leg.isWiped) await this.#options.changes.until(undefined, () => leg.isWiped || undefined, this.#forLong);
  }

  /** Closes the agent's own descriptors at its stop. The legs go on. */
  async leave(): Promise<void> {
    for (const leg of this.#all.values()) await leg.opened?.then((handle) => handle.close()).catch(() => undefined);
  }

  #at(sessionNumber: number, offsetBytes: number): Leg | undefined {
    for (const leg of this.#all.values())
      if (leg.role.sessionNumber === sessionNumber && contains(leg.run, offsetBytes)) return leg;
    return undefined;
  }

  get #forLong() {
    return { timeoutMs: 60_000, clock: this.#options.clock };
  }

  /** Returns the leg of the session, made or grown to the run. */
  async #legFor({ sessionNumber, run: { offsetBytes: startBytes, ...granted }, guard }: LegOrder): Promise<Leg> {
    const { mapper } = this.#options;
    const { id: deviceId, config, sizeBytes } = this.#device;
    const run = { offsetBytes: startBytes, sizeBytes: sizeBytes - startBytes };
    if (granted.sizeBytes > 0) run.sizeBytes = Math.min(run.sizeBytes, granted.sizeBytes);
    if (mapper === undefined) throw new Error(`device ${deviceId} has a guard without device-mapper`);
    const key = keyOf(sessionNumber, run.offsetBytes);
    // A leg of the same session may be ending, as after a detach.
    for (let ending = this.#all.get(key); ending?.fencedSinceMs !== undefined; ending = this.#all.get(key))
      await ending.gone;
    const refusal = this.#device.refusalOf(sessionNumber, run.offsetBytes);
    if (refusal !== undefined) throw new UnavailableError(refusal, { about: { device_id: deviceId } });
    const offsetBytes = config.offsetBytes + run.offsetBytes;
    if (!isWholeSectors(offsetBytes))
      throw new InvalidStateError(
        `device ${deviceId} has a run that begins at byte ${offsetBytes} of its drive: engine kernel needs a multiple of ${SECTOR_BYTES}`,
        { about: { device_id: deviceId } },
      );
    const role = { kind: "leg" as const, sessionNumber, offsetBytes: run.offsetBytes, deviceId };
    const table = linearTable([{ on: guard, offsetBytes, sizeBytes: run.sizeBytes }]);
    const known = this.#all.get(key);
    if (known === undefined) return this.#made(this.#note(role, run, mapper.ensure({ role, table })));
    if (known.run.sizeBytes < run.sizeBytes) {
      known.run = run;
      known.made = known.made.catch(() => undefined).then(() => mapper.ensure({ role, table }));
    }
    return this.#made(known);
  }

  /** Resolves once the leg is made. A leg that cannot be made ends, so that the next try begins anew. */
  async #made(leg: Leg): Promise<Leg> {
    try {
      await leg.made;
    } catch (error) {
      this.#fence(leg);
      throw error;
    }
    return leg;
  }

  /** Lists the leg before it exists, so that a grant waits for it. */
  #note(role: LegRole, run: Run, made: Promise<string>): Leg {
    made.catch(() => undefined);
    let noteGone: () => void = () => {};
    const gone = new Promise<void>((resolve) => {
      noteGone = resolve;
    });
    const state = { opened: undefined, isTaken: false, fencedSinceMs: undefined, isWiped: false };
    const leg: Leg = { role, run, made, ...state, gone, noteGone };
    this.#all.set(keyOf(role.sessionNumber, role.offsetBytes), leg);
    void this.#watch();
    return leg;
  }

  /** Fences legs as soon as their session is refused, whatever the reason. */
  async #watch(): Promise<void> {
    if (this.#isWatched) return;
    this.#isWatched = true;
    const { changes } = this.#options;
    using watch = changes.watch(undefined);
    while (this.#all.size > 0) {
      for (const leg of this.#all.values())
        if (this.#device.refusalOf(leg.role.sessionNumber, leg.role.offsetBytes) !== undefined) this.#fence(leg);
      await watch.changed();
    }
    this.#isWatched = false;
  }

  #fence(leg: Leg): void {
    if (leg.fencedSinceMs !== undefined) return;
    const { mapper, nvmeTarget, clock } = this.#options;
    leg.fencedSinceMs = clock.monotonicMs();
    if (mapper !== undefined) nvmeTarget?.noteFence(leg.role.sessionNumber, mapper.uuidOf(leg.role));
    void this.#fenceNow(leg);
  }

  async #fenceNow(leg: Leg): Promise<void> {
    const { mapper, nvmeTarget, changes, log } = this.#options;
    if (mapper === undefined) return;
    const about = { deviceId: leg.role.deviceId, sessionNumber: leg.role.sessionNumber };
    // A leg that is being made is wiped once it is there.
    const number = await leg.made.catch(() => undefined);
    while (!leg.isWiped)
      try {
        const failure = await mapper.cut(leg.role);
        leg.isWiped = true;
        if (failure !== undefined) this.#noteUnflushed(about, failure);
      } catch (error) {
        log.error({ ...about, error: messageOf(error) }, "leg not wiped");
        await sleep(RETRY_MS);
      }
    changes.touch();
    await leg.opened?.then((handle) => handle.close()).catch(() => undefined);
    await nvmeTarget?.end(leg.role.sessionNumber, number);
    const onWait = (reason: string) => log.debug({ ...about, reason }, "leg is still in use");
    await mapper.removeWhenFree(leg.role, { onWait });
    this.#all.delete(keyOf(leg.role.sessionNumber, leg.role.offsetBytes));
    leg.noteGone();
    changes.touch();
  }

  /** The kernel logs a failed flush, too, which makes the drive's devices ERROR. */
  #noteUnflushed(about: { readonly deviceId: DeviceId; readonly sessionNumber: number }, reason: string): void {
    this.#device.noteLostWrites();
    this.#options.log.error({ ...about, reason }, "drive not flushed at a fence: acknowledged writes may be lost");
  }

  async #openLeg(leg: Leg): Promise<OpenHandle> {
    const file = await open(pathOf(await leg.made), "r+");
    const startBytes = this.#device.config.offsetBytes + leg.run.offsetBytes;
    return {
      read: (buffer, offset, length, position) => file.read(buffer, offset, length, position - startBytes),
      write: (buffer, offset, length, position) => file.write(buffer, offset, length, position - startBytes),
      datasync: () => file.datasync(),
      punchHole: (offsetBytes, lengthBytes) => punchHole(file.fd, offsetBytes - startBytes, lengthBytes),
      syncs: new FileSyncs(() => this.#device.noteLostWrites()),
      close: () => file.close(),
    };
  }
}

async function segmentOf({ made, run }: Leg, { offsetBytes, sizeBytes }: Run): Promise<Segment> {
  return { on: await made, offsetBytes: offsetBytes - run.offsetBytes, sizeBytes };
}

function keyOf(sessionNumber: number, offsetBytes: number): string {
  return `${sessionNumber}/${offsetBytes}`;
}
