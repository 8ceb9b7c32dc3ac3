import {
  backoffMs,
  type DeviceId,
  type DiskId,
  messageOf,
  NotFoundError,
  OutdatedError,
  UnavailableError,
} from "@diskmesh/domain";
import type { WorkResult } from "@diskmesh/service";
import { noteMove } from "../metrics/moves.js";
import type { Leader } from "../model/devices/orders.js";
import { type MoveProgress, progressAfter } from "../model/disks/move-progress.js";
import { chooseAnyTarget } from "../model/disks/move-target.js";
import { MoveTurns } from "../model/disks/move-turns.js";
import {
  beginTarget,
  beginTry,
  type Copying,
  completeCopy,
  copyingCopy,
  cutOver,
  failTry,
  giveUpTarget,
  type Mirroring,
  type MoveStep,
  noteCopied,
  onTarget,
  planMove,
} from "../model/disks/moves.js";
import { leaveFailing, moveAway } from "../model/disks/removal-moves.js";
import { recordOf } from "../model/disks/run-records.js";
import { coveredRuns } from "../model/disks/session-plan.js";
import {
  type Device,
  type Disk,
  type Host,
  isFailing,
  type RegistryTables,
  type RegistryTransaction,
} from "../model/store/schema.js";
import { leaderStamp, outcomeOf } from "../requests/wire.js";
import { copyBytesPerSecond } from "./copy-rate.js";
import { type Answer, answerOfMirror } from "./move-answer.js";
import { grantOf } from "./session-grant.js";
import type { WaitingMoves } from "./waiting-moves.js";
import type { WorkContext } from "./work-context.js";

/** Interval in ms at which a running copy is asked for its progress. */
const POLL_INTERVAL_MS = 200;
/** Interval in ms at which the progress of a copy is stored. */
const MARK_INTERVAL_MS = 1_000;
/** Interval in ms at which a move looks again for space. */
const WAIT_INTERVAL_MS = 5_000;
/** Interval in ms at which a move looks again for its turn, should the end of another copy not have woken it. */
const TURN_INTERVAL_MS = 600_000;

/** The next step of a disk's moves, with its rate. */
type Planned =
  | Exclude<MoveStep, { readonly kind: "copy" | "mirror" }>
  | Rated<Extract<MoveStep, { readonly kind: "copy" }>>
  | Rated<Extract<MoveStep, { readonly kind: "mirror" }>>;

/** A step of which a copy runs, with the rate that it may have in bytes per second; 0 for unlimited. */
type Rated<Step extends Copying> = Step & { readonly bytesPerSecond: number };

interface Opened {
  readonly kind: "opened";
  /** Address at which another host reaches the device. */
  readonly blockAddress: string;
}

/**
 * Moves one part of a disk after the other to another device. The tables say what is next, so that each leader
 * continues; a try whose session is no longer the copy's is worthless.
 */
export class MoveWorker {
  readonly #progress = new Map<DiskId, MoveProgress>();
  /** Sessions that this leader has opened on both devices of a copy between agents, by disk. */
  readonly #opened = new Map<DiskId, { readonly sessionNumber: number; readonly blockAddress: string }>();
  /** Tokens with which copies between agents go on, by disk. */
  readonly #resumable = new Map<DiskId, { readonly sessionNumber: number; readonly resumeToken: string }>();

  /** Monotonic time of the last mark in ms, by disk. */
  readonly #markedAtMs = new Map<DiskId, number>();

  constructor(
    private readonly context: WorkContext,
    /** Called when the progress of a disk's move has changed. */
    private readonly onProgress: (diskId: DiskId) => void,
    private readonly waiting: WaitingMoves,
  ) {}

  progressOf(diskId: DiskId): MoveProgress | undefined {
    return this.#progress.get(diskId);
  }

  async process(diskId: DiskId, signal: AbortSignal): Promise<WorkResult> {
    const { tablet, fleet } = this.context;
    const leader = fleet.leader();
    const step = await tablet.read((tables) => this.#plan(tables, diskId));
    try {
      return await this.#take(diskId, step, leader, signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#note(diskId, { ...this.#progress.get(diskId), waits: messageOf(error) });
      throw error;
    }
  }

  #plan(tables: RegistryTables, diskId: DiskId): Planned {
    const step = planMove(tables, diskId);
    if (step.kind !== "copy" && step.kind !== "mirror") return step;
    const shares = new MoveTurns(tables).sharesOf([step.source.hostId, step.target.hostId]);
    return { ...step, bytesPerSecond: copyBytesPerSecond(this.context.config, shares) };
  }

  async #take(diskId: DiskId, step: Planned, leader: Leader, signal: AbortSignal): Promise<WorkResult> {
    const { tablet } = this.context;
    switch (step.kind) {
      case "none":
        this.#progress.delete(diskId);
        this.#opened.delete(diskId);
        this.waiting.delete(diskId);
        this.#resumable.delete(diskId);
        this.#markedAtMs.delete(diskId);
        return "done";
      case "wait":
        this.#note(diskId, { waits: step.why });
        return { retryAfterMs: WAIT_INTERVAL_MS };
      case "choose":
        return this.#choose(diskId);
      case "give_up":
        await tablet.transact((tx) => giveUpTarget(tx, diskId, step.index, step.why));
        noteMove("failed");
        return { retryAfterMs: 0 };
      case "begin":
        await this.#begin(diskId);
        return { retryAfterMs: 0 };
      case "copy":
        return this.#settle(step, await this.#copy(step, leader, signal), (tx) => completeCopy(tx, step));
      case "mirror":
        return this.#settle(step, await this.#mirror(step, leader, signal), (tx) => cutOver(tx, step));
    }
  }

  async #choose(diskId: DiskId): Promise<WorkResult> {
    const { tablet, liveness, clock, random, limits } = this.context;
    const { whySuspected, mayYetBeHeard } = liveness;
    const { maxDevicesPerDisk: maxParts } = limits;
    const now = { draw: random(), whySuspected, mayYetBeHeard, nowMs: clock.nowMs(), maxParts };
    const found = await tablet.transact((tx) => {
      const step = planMove(tx, diskId);
      if (step.kind !== "choose") return undefined;
      const chosen = chooseAnyTarget(tx, [step, ...step.others], now);
      if ("spaces" in chosen) beginTarget(tx, chosen.moving, chosen.spaces);
      // Noted before a later transaction can end a copy, whose end wakes those that are noted.
      else if (!chosen.isShort) this.waiting.add(diskId, step.source.hostId);
      return chosen;
    });
    if (found === undefined || "spaces" in found) {
      this.waiting.delete(diskId);
      return { retryAfterMs: 0 };
    }
    if (found.isShort) this.waiting.pass(diskId);
    this.#note(diskId, { waits: found.why, isShort: found.isShort });
    return { retryAfterMs: found.isShort ? WAIT_INTERVAL_MS : TURN_INTERVAL_MS };
  }

  /** Gives the next try a session, once the agents have told the registry the numbers that they remember. */
  async #begin(diskId: DiskId): Promise<void> {
    const { tablet, agents, limits } = this.context;
    const hosts = await tablet.read((tables): readonly Host[] => {
      const copies = tables.disks.get(diskId)?.parts.flatMap((part) => (part.move === undefined ? [] : part.copies));
      return (copies ?? []).flatMap(({ deviceId }) => {
        const device = tables.devices.get(deviceId);
        return tables.hosts.get(device?.hostId ?? "") ?? [];
      });
    });
    for (const host of new Set(hosts)) await agents.introduce(host, limits.agentTimeoutMs);
    await tablet.transact((tx) => beginTry(tx, diskId));
  }

  /** Stores the end of a try, or its failure; a try that goes on is asked again soon. */
  async #settle(
    step: Rated<Copying>,
    answer: Answer,
    complete: (tx: RegistryTransaction) => boolean,
  ): Promise<WorkResult> {
    const { tablet, limits, random } = this.context;
    const { diskId } = step.disk;
    switch (answer.kind) {
      case "goes_on":
        this.#noteCopied(step, answer.copiedBytes);
        return { retryAfterMs: POLL_INTERVAL_MS };
      case "done":
        if (await tablet.transact((tx) => complete(tx) && this.#leaveAgain(tx, step.target.deviceId)))
          noteMove("done", step.sizeBytes);
        this.#progress.delete(diskId);
        this.onProgress(diskId);
        return { retryAfterMs: 0 };
      case "failed": {
        await tablet.transact((tx) => failTry(tx, step, answer.error, answer));
        noteMove("failed");
        this.#note(diskId, { waits: answer.error });
        return { retryAfterMs: backoffMs(step.move.attempts + 1, limits.backoff, random()) };
      }
    }
  }

  /** Has the part leave its new device, too, if that was to be left before it counted. Returns true. */
  #leaveAgain(tx: RegistryTransaction, deviceId: DeviceId): true {
    const { clock, config } = this.context;
    const device = tx.devices.get(deviceId);
    const nowMs = clock.nowMs();
    if (device?.removalRequested) moveAway(tx, [device], nowMs);
    else if (device && isFailing(device) && config.moves.failingDevicesOfPools.has(device.pool))
      leaveFailing(tx, [device], { nowMs, isNew: true });
    return true;
  }

  /** Has the target's agent copy the source, and returns its answer. */
  async #copy(order: Rated<Copying>, leader: Leader, signal: AbortSignal): Promise<Answer> {
    const { agents, limits } = this.context;
    const { disk, source, target, targetHost, sessionNumber, sizeBytes } = order;
    const { sourceOffsetBytes, targetOffsetBytes } = order;
    const opened = await this.#openSessions(order, leader, signal);
    if (opened.kind !== "opened") return opened;
    const { blockAddress } = opened;
    const access = blockAddress !== "" && { blockAddress, sessionKey: this.#keyOf(order) };
    const former = this.#resumable.get(disk.diskId);
    const request = {
      bootId: targetHost.bootId,
      stamp: leaderStamp(leader),
      diskId: disk.diskId,
      sessionNumber,
      source: {
        deviceId: source.deviceId,
        hostId: source.hostId,
        offsetBytes: sourceOffsetBytes,
        sizeBytes,
        ...access,
      },
      deviceId: target.deviceId,
      offsetBytes: targetOffsetBytes,
      sizeBytes,
      bytesPerSecond: order.bytesPerSecond,
      resumeToken: former?.sessionNumber === sessionNumber ? former.resumeToken : "",
      copiedBytes: copyingCopy(order.part).mark?.copiedBytes ?? 0,
    };
    const deadlineMs = limits.agentTimeoutMs;
    const { outcome, copiedBytes, resumeToken, durableBytes } = await agents.order(
      targetHost,
      { leader, deadlineMs },
      (client) => client.copyDevice(request, { signal, deadlineMs }),
    );
    const isOfRun = outcome?.deviceId === target.deviceId && outcome.offsetBytes === targetOffsetBytes;
    const told = isOfRun ? outcomeOf(outcome) : undefined;
    if (told === undefined) throw new UnavailableError("the answer of the target's agent does not name the device");
    if (told.code === "DONE" || told.code === "ALREADY") return this.#recordCopied(order, leader, signal);
    // An agent that does not have the device yet answers PENDING without a token.
    if (resumeToken !== "" || told.code !== "PENDING") this.#resumable.set(disk.diskId, { sessionNumber, resumeToken });
    await this.#mark(order, durableBytes);
    if (told.code === "PENDING") return { kind: "goes_on", copiedBytes };
    // The source may have another address when it is opened again.
    this.#opened.delete(disk.diskId);
    const error = `copying device ${source.deviceId} to ${target.deviceId}: ${told.code}: ${told.message}`;
    return { kind: "failed", error, isOfTarget: false, goesOn: told.code === "IO_ERROR" && resumeToken !== "" };
  }

  /** Marks now and then how far the copy is, so that it goes on in the session of a publication. */
  async #mark(order: Copying, durableBytes: number): Promise<void> {
    const { tablet, clock } = this.context;
    const { diskId } = order.disk;
    const nowMs = clock.monotonicMs();
    const isDue = nowMs - (this.#markedAtMs.get(diskId) ?? Number.NEGATIVE_INFINITY) >= MARK_INTERVAL_MS;
    if (!isDue || durableBytes <= (copyingCopy(order.part).mark?.copiedBytes ?? 0)) return;
    this.#markedAtMs.set(diskId, nowMs);
    await tablet.transact((tx) => noteCopied(tx, order, durableBytes));
  }

  /**
   * Opens the try's session on the source and then on the target, for the target's host. A new leader opens it again,
   * with another key.
   */
  async #openSessions(order: Copying, leader: Leader, signal: AbortSignal): Promise<Opened | Answer> {
    const { diskId } = order.disk;
    const { sessionNumber, source, target, sourceHost, targetHost } = order;
    const known = this.#opened.get(diskId);
    if (known?.sessionNumber === sessionNumber) return { kind: "opened", blockAddress: known.blockAddress };
    let blockAddress = "";
    for (const place of [
      { host: sourceHost, device: source },
      { host: targetHost, device: target },
    ]) {
      const opened = await this.#openSession(order, { ...place, disk: order.disk, layout: 0 }, leader, signal);
      if (opened.kind !== "opened") return opened;
      if (place.device === source) blockAddress = opened.blockAddress;
    }
    this.#opened.set(diskId, { sessionNumber, blockAddress });
    return { kind: "opened", blockAddress };
  }

  /** Opens the try's session on one device. The records there say what of this disk counts. */
  async #openSession(
    order: Copying,
    { host, device, disk, layout }: { host: Host; device: Device; disk: Disk; layout: number },
    leader: Leader,
    signal: AbortSignal,
  ): Promise<Opened | Answer> {
    const { agents, limits, clock } = this.context;
    const { sessionNumber, targetHost } = order;
    const { mark } = copyingCopy(order.part);
    const formerNumber = device === order.source ? mark?.sourceSession : mark?.targetSession;
    const session = { layout, clean: disk.fence === undefined };
    const asked = coveredRuns([device], disk, {
      recordOf: (on, run) => recordOf(disk, on, run, session),
    });
    const request = {
      bootId: host.bootId,
      stamp: leaderStamp(leader),
      sessionNumber,
      diskId: disk.diskId,
      holderHostId: targetHost.hostId,
      deviceIds: [...asked.deviceIds],
      runs: [...asked.runs],
      formerSessionNumber: formerNumber === sessionNumber ? 0 : (formerNumber ?? 0),
      ...(host.hostId !== targetHost.hostId && { sessionKey: this.#keyOf(order) }),
    };
    const deadlineMs = limits.agentTimeoutMs;
    const { outcomes } = await agents.order(host, { leader, deadlineMs }, (client) =>
      client.openSession(request, { signal, deadlineMs }),
    );
    const grant = grantOf(host, asked, outcomes, clock.nowMs());
    if (grant.kind === "outdated") return { kind: "failed", error: grant.error, isOfTarget: false };
    if (grant.kind !== "granted") throw new UnavailableError(grant.error);
    return { kind: "opened", blockAddress: grant.addresses.get(device.deviceId) ?? "" };
  }

  /** Has the target's record say that the target counts, before the source is freed. */
  async #recordCopied(order: Copying, leader: Leader, signal: AbortSignal): Promise<Answer> {
    const { targetHost: host, target: device } = order;
    const opened = await this.#openSession(order, { host, device, disk: onTarget(order), layout: 1 }, leader, signal);
    return opened.kind === "opened" ? { kind: "done" } : opened;
  }

  #keyOf({ disk, sessionNumber, source }: Copying): Buffer {
    return this.context.sessionKeys.keyOf({ diskId: disk.diskId, sessionNumber, hostId: source.hostId });
  }

  /** Asks the holder how far its mirror is. */
  async #mirror(order: Rated<Mirroring>, leader: Leader, signal: AbortSignal): Promise<Answer> {
    const { agents, limits } = this.context;
    const { disk, publication, holder, source, target } = order;
    const { sourceOffsetBytes: offsetBytes, targetOffsetBytes } = order;
    const request = {
      bootId: holder.bootId,
      stamp: leaderStamp(leader),
      diskId: disk.diskId,
      sessionNumber: publication.sessionNumber,
      revision: publication.revision ?? 0,
      deviceId: source.deviceId,
      offsetBytes,
      targetDeviceId: target.deviceId,
      targetOffsetBytes,
      bytesPerSecond: order.bytesPerSecond,
    };
    const deadlineMs = limits.agentTimeoutMs;
    try {
      const told = await agents.order(holder, { leader, deadlineMs }, (client) =>
        client.getMirror(request, { signal, deadlineMs }),
      );
      return answerOfMirror(told, order);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof NotFoundError) && !(error instanceof OutdatedError)) throw error;
      const why = `host ${holder.hostId} does not mirror device ${source.deviceId}: ${messageOf(error)}`;
      return { kind: "failed", error: why, isOfTarget: false };
    }
  }

  #noteCopied(
    { disk, sessionNumber, sizeBytes, bytesPerSecond: maxBytesPerSecond }: Rated<Copying>,
    copiedBytes: number,
  ): void {
    const atMs = this.context.clock.monotonicMs();
    const now = { sessionNumber, copiedBytes, sizeBytes, atMs, maxBytesPerSecond };
    this.#note(disk.diskId, { copy: progressAfter(this.#progress.get(disk.diskId)?.copy, now) });
  }

  #note(diskId: DiskId, progress: MoveProgress): void {
    this.#progress.set(diskId, progress);
    this.onProgress(diskId);
  }
}
