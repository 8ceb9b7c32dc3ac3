import {
  bytesOf,
  countingDevices,
  type Device,
  type Disk,
  diskOn,
  disksOn,
  eraseSessionOf,
  type Host,
  holds,
  holdsAnyDisk,
  isDirty,
  runAt,
} from "@diskmesh/disk-registry/simulation";
import type { Change } from "@diskmesh/tablet";
import type { World } from "./parts.js";
import { silenceTimeoutMs, unavailableRemovalTimeoutMs } from "./registry-node.js";
import type { SimProcess } from "./seed/timeline.js";
import type { SimStore } from "./store.js";

/** Maximum numbers that one commit takes. While the registry was not rewound, nothing else raises the counters. */
const MAX_AT_ONCE = 2 ** 10;
/** Maximum numbers that truthful agents and operators report, even after some restores. A lie is far higher. */
const MAX_BELIEVED = 2 ** 40;

/** Time in ms beyond the silence timeout, for delayed messages and failed registrations. */
const REGISTERS_WITHIN_MS = 1_000;

/** Checks every durable change: it must follow from what agents really reported. */
export class StateWatch {
  #highestGeneration = 0;

  /** Devices of each disk when its unpublication began. A device that is added later has never had a holder. */
  readonly #toFence = new Map<string, ReadonlySet<string>>();

  constructor(private readonly world: World) {
    this.watch(world.store);
  }

  /** Makes this store the one that is checked. */
  watch(store: SimStore): void {
    this.#highestGeneration = store.counter("device_generation");
    store.onCommit = (changes, apply, by) => this.#committed(changes, apply, by);
  }

  #committed(changes: readonly Change[], apply: () => void, by: SimProcess): void {
    const { store } = this.world;
    const devices: { before: Device | undefined; after: Device }[] = [];
    const disks: { before: Disk | undefined; after: Disk | undefined }[] = [];
    const counters = { device: store.counter("device_generation"), session: store.counter("session_number") };
    for (const { table, key, document } of changes) {
      if (table === "devices" && document !== null)
        devices.push({ before: store.device(key), after: document as Device });
      if (table === "disks") disks.push({ before: store.disk(key), after: (document as Disk | null) ?? undefined });
    }
    const adopted = this.world.adoptions.begin(changes);
    const hostsBefore = new Map([...store.hosts()].map((host) => [host.hostId as string, host]));
    apply();
    const raisedBy = [
      store.counter("device_generation") - counters.device,
      store.counter("session_number") - counters.session,
    ];
    if (raisedBy.some((by) => by < 0)) this.world.violation("a counter went back");
    const most = this.world.rewinds.epoch === 0 ? MAX_AT_ONCE : MAX_BELIEVED;
    if (raisedBy.some((by) => by > most))
      this.world.violation(`a counter was raised by ${Math.max(...raisedBy)} at once, at an agent's word`);
    let highest = this.#highestGeneration;
    for (const { before, after } of devices) {
      this.#trace(by, before, after);
      highest = Math.max(highest, this.#checkGeneration(before, after));
      this.#checkAttachState(before, after, hostsBefore.get(after.hostId));
      this.#checkUse(adopted.get(after.deviceId) ?? before, after, hostsBefore.get(after.hostId));
      this.#checkLeaving(before, after, hostsBefore.get(after.hostId));
    }
    this.#highestGeneration = highest;
    const hostsChanged = new Set(changes.filter(({ table }) => table === "hosts").map(({ key }) => key));
    for (const [hostId, before] of hostsBefore) {
      this.#checkDead(hostId, before);
      this.#checkHeard(hostId);
    }
    // Ignores hosts that changed in this commit, because the override may share the commit with an earlier change.
    const isDead = (hostId: string) => !hostsChanged.has(hostId) && hostsBefore.get(hostId)?.state === "DEAD";
    for (const { before, after } of devices)
      if (before !== undefined && !holdsAnyDisk(before) && holdsAnyDisk(after) && isDead(after.hostId))
        this.world.violation(`${after.deviceId} of DEAD host ${after.hostId} was given to disk ${diskOn(after)}`);
    for (const { before, after } of disks) {
      if (before !== undefined && after === undefined)
        for (const device of devices)
          if (holds(device.before, before.diskId)) this.world.lives.named(device.after.deviceId, before.diskId);
      this.#checkPublication(before, after);
      this.world.moves.committed(before, after);
      const target = before?.publication === undefined ? after?.publication?.hostId : undefined;
      // Ignores targets that changed in this commit, because the removal request may share the commit with an earlier
      // change.
      if (target !== undefined && !hostsChanged.has(target) && hostsBefore.get(target)?.removalRequested)
        this.world.violation(`disk ${after?.diskId} was published to ${target}, which is to be removed`);
      const places =
        target === undefined
          ? []
          : [target, ...(after === undefined ? [] : countingDevices(after)).map((id) => store.device(id)?.hostId)];
      const dead = places.find((hostId) => hostId !== undefined && isDead(hostId));
      if (dead !== undefined)
        this.world.violation(`disk ${after?.diskId} was published to ${target}, and ${dead} is DEAD`);
    }
    this.world.acknowledged.check();
  }

  /** Requires that only an operator's override or a purge ends DEAD. */
  #checkDead(hostId: string, before: Host): void {
    const after = this.world.store.host(hostId);
    if (before.state !== "DEAD" || after === undefined || after.state === "DEAD") return;
    if (!this.world.requests.takenBack.has(hostId))
      this.world.violation(`host ${hostId} is ${after.state}, and nobody took back that it is DEAD`);
  }

  /** Requires that a host is not UNAVAILABLE while its only fault is a malformed report. */
  #checkHeard(hostId: string): void {
    const { scenario, store, timeline } = this.world;
    const host = store.host(hostId);
    // A host that must register again stays UNAVAILABLE until its registration is answered.
    if (scenario?.name !== "refused registrations" || host?.state !== "UNAVAILABLE" || host.mustRegister) return;
    const { process, startedAtMs = Number.POSITIVE_INFINITY } = this.world.agentOf(hostId) ?? {};
    if (process?.alive && timeline.nowMs - startedAtMs > silenceTimeoutMs + REGISTERS_WITHIN_MS)
      this.world.violation(`host ${hostId} is UNAVAILABLE, and its agent runs and reaches the registry`);
  }

  #trace(by: SimProcess, before: Device | undefined, after: Device): void {
    const textOf = (device: Device) =>
      `${device.attachState} generation ${device.generation}${disksOn([device]).map((diskId) => ` disk ${diskId}`)}`;
    if (before === undefined || textOf(before) !== textOf(after))
      this.world.trace(`${by.name}: durable: ${after.deviceId} ${textOf(after)}`);
  }

  #checkGeneration(before: Device | undefined, after: Device): number {
    if (before?.generation !== after.generation && after.generation <= this.#highestGeneration)
      this.world.violation(
        `generation ${after.generation} of ${after.deviceId} was given out before: ${this.#highestGeneration} is the highest`,
      );
    return after.generation;
  }

  #checkAttachState(before: Device | undefined, after: Device, hostBefore: Host | undefined): void {
    const { orders } = this.world;
    const { deviceId, generation, attachState } = after;
    const isNew = before?.attachState !== attachState || before.generation !== generation;
    if (attachState === "ATTACHED" && isNew && !orders.confirmedAttach.get(deviceId)?.has(generation))
      this.world.violation(
        `${deviceId} became ATTACHED, and its agent never confirmed the attach of generation ${generation}`,
      );
    if ((attachState === "ATTACHING" || attachState === "ATTACHED") && isNew) this.world.bytes.requireAlone(after);
    const confirmed = orders.confirmedDetach.get(deviceId)?.has(generation) === true;
    if (after.detachConfirmed && !before?.detachConfirmed && !confirmed)
      this.world.violation(
        `the detach of ${deviceId} counts as confirmed, and its agent never confirmed generation ${generation}`,
      );
    if (attachState !== "DETACHED" || before?.attachState === "DETACHED" || confirmed) return;
    if (!this.#isGivenUp(after, hostBefore))
      this.world.violation(`${deviceId} became DETACHED: nobody confirmed it, and its host can still be asked`);
  }

  /**
   * Returns whether the removal no longer waits for the device's host. The host may have become, or ceased to be,
   * UNAVAILABLE in the same commit.
   */
  #isGivenUp({ hostId }: Device, hostBefore: Host | undefined): boolean {
    return [hostBefore, this.world.store.host(hostId)].some((host) => {
      const silentMs = this.world.epochMs() - (host?.stateChangedAtMs ?? 0);
      return host?.state === "DEAD" || (host?.state === "UNAVAILABLE" && silentMs >= unavailableRemovalTimeoutMs);
    });
  }

  /** Requires that a device leaves without data, unless an operator wanted to keep it or it could not be erased. */
  #checkLeaving(before: Device | undefined, after: Device, hostBefore: Host | undefined): void {
    const wasIn = before?.attachState === "ATTACHED" || before?.attachState === "ATTACHING";
    const isOut = after.attachState === "CLOSING" || after.attachState === "DETACHED";
    if (before?.keepData && after.keepData && eraseSessionOf(after) > eraseSessionOf(before))
      this.world.violation(`${after.deviceId} is erased, and what is on it was to be kept`);
    if (!wasIn || !isOut || after.keepData || this.#isGivenUp(after, hostBefore)) return;
    // Checks that the device was dirty before this commit, too, because a registration in the same commit may have
    // reported that it may be another drive. A device on another device's bytes is not erased.
    if (isDirty(after) && isDirty(before) && !this.world.bytes.isShared(after.hostId, after.deviceId))
      this.world.violation(`${after.deviceId} left with what is on it, and nobody wanted that`);
    if (!isDirty(after) && before.attachState === "ATTACHED") this.world.bytes.requireClean(after, hostBefore?.bootId);
  }

  #checkUse(before: Device | undefined, after: Device, hostBefore: Host | undefined): void {
    const { orders } = this.world;
    const { deviceId } = after;
    for (const run of before?.runs ?? []) {
      const isStillDirty = after.runs.some((other) => other.diskId === "" && overlap(before, run, after, other));
      if (run.diskId !== "" || isStillDirty || orders.erased.get(deviceId)?.has(run.eraseSessionNumber ?? 0)) continue;
      const session = run.eraseSessionNumber ?? 0;
      this.world.violation(`${deviceId} counts as clean, and its agent never erased it in session ${session}`);
    }
    const isOffered =
      after.attachState === "ATTACHED" && !isDirty(after) && (before === undefined || !holdsAnyDisk(before));
    // Uses the boot id from before the commit, because a registration may share the commit with an earlier decision.
    if (isOffered) this.world.bytes.requireClean(after, hostBefore?.bootId);
    for (const { diskId, first } of after.runs)
      if (diskId !== "" && (before === undefined || runAt(before, diskId, first) === undefined))
        this.#checkAllocation(before, after, diskId);
  }

  #checkAllocation(before: Device | undefined, after: Device, diskId: string): void {
    const { deviceId } = after;
    this.world.lives.named(deviceId, diskId);
    // Accepts a confirmation from before the commit, too, because the commit may hold more than the allocation, e.g. a
    // later registration without the device.
    const confirmed = [before, after].some(
      (device) =>
        device?.attachState === "ATTACHED" &&
        this.world.orders.confirmedAttach.get(deviceId)?.has(device.generation) === true,
    );
    if (!confirmed)
      this.world.violation(`${deviceId} was allocated to disk ${diskId}, and nobody confirmed that it is held`);
  }

  #checkPublication(before: Disk | undefined, after: Disk | undefined): void {
    const left = after === undefined ? before?.publication : undefined;
    // Accepts UNPUBLISHING, because one commit may hold the end of an unpublication and the deletion.
    if (left !== undefined && left.state !== "UNPUBLISHING")
      this.world.violation(`disk ${before?.diskId} was deleted while it was ${left.state}`);
    const disk = after ?? before;
    if (disk === undefined) return;
    const was = before?.publication;
    const is = after?.publication;
    const published = is?.state === "PUBLISHED" && was?.state !== "PUBLISHED" ? is : undefined;
    const unpublished = was !== undefined && is === undefined && after !== undefined ? was : undefined;
    if (is?.state === "UNPUBLISHING" && was?.sessionNumber !== is.sessionNumber)
      this.#toFence.set(disk.diskId, new Set(countingDevices(disk)));
    const session = (published ?? unpublished)?.sessionNumber;
    if (session === undefined) return;
    for (const deviceId of countingDevices(disk)) {
      if (unpublished?.state === "UNPUBLISHING" && this.#toFence.get(disk.diskId)?.has(deviceId) === false) continue;
      if (!holds(this.world.store.device(deviceId), disk.diskId)) continue;
      if (this.world.orders.granted.get(deviceId)?.has(session)) continue;
      // Without a request to any device, a session has fenced off no host and granted no I/O.
      if (unpublished?.state === "PUBLISHING" && !this.world.orders.wasAsked(session)) continue;
      this.world.violation(
        `disk ${disk.diskId} became ${published ? "PUBLISHED" : "unpublished"} in session ${session}, which ${deviceId} never granted`,
      );
    }
    if (unpublished && was?.state !== "UNPUBLISHING" && this.world.orders.wasAsked(session))
      this.world.violation(`disk ${disk.diskId} went from ${was?.state} to unpublished without a fence`);
  }
}

type Run = Device["runs"][number];

/** Returns whether two runs of a device have a byte in common. */
function overlap(before: Device | undefined, run: Run, after: Device, other: Run): boolean {
  if (before === undefined) return false;
  const [a, b] = [bytesOf(before, run), bytesOf(after, other)];
  return a.offsetBytes < b.offsetBytes + b.sizeBytes && b.offsetBytes < a.offsetBytes + a.sizeBytes;
}
