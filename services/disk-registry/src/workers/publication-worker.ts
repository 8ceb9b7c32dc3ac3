import type { ExportDiskResponse } from "@diskmesh/api/internal";
import { ExportKind } from "@diskmesh/api/registry";
import {
  AbortedError,
  type DeviceId,
  type DiskId,
  type HostId,
  messageOf,
  OutdatedError,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { EitherSignal, type WorkResult } from "@diskmesh/service";
import type { AgentClient } from "../agents/agent-clients.js";
import { notePhase } from "../metrics/phases.js";
import { spendMarks } from "../model/disks/copy-marks.js";
import { completeChange, groupsOfOwnSessions } from "../model/disks/export-changes.js";
import { SMALL_COPIES } from "../model/disks/move-turns.js";
import { failMirror } from "../model/disks/moves.js";
import {
  completePublish,
  completeUnpublish,
  isCurrent,
  isFence,
  markAsked,
  recordPublicationFailure,
  renewSession,
} from "../model/disks/publications.js";
import {
  type CoveredRuns,
  type MirrorTarget,
  NO_RUNS,
  planSession,
  recordedRuns,
  type SessionGroup,
  type SessionPlan,
} from "../model/disks/session-plan.js";
import { type Host, isAway, type RegistryTransaction } from "../model/store/schema.js";
import { leaderStamp } from "../requests/wire.js";
import { copyBytesPerSecond } from "./copy-rate.js";
import { endExport, type OrderedSession } from "./end-export.js";
import {
  accessTo,
  groupOfSource,
  isElsewhere,
  operationOf,
  requireTarget,
  runsOfTarget,
  within,
  without,
} from "./publication-steps.js";
import { type Grant, grantedOf, grantOf, NotGrantedError, type Reached, reachedBy } from "./session-grant.js";
import type { WorkContext } from "./work-context.js";

/** Failed tries of a change after which a move that is part of it begins anew. */
const TRIES_OF_MIRROR = 2;
/** Time in ms that a complete fence waits for the host's confirmation that it no longer serves the disk. */
const FENCED_HOST_MS = 200;

/** Transaction that completes the publication once all external work is done. */
type Complete = (tx: RegistryTransaction) => void;

interface ExportOptions {
  /** Addresses of devices of other hosts. The agent keeps the addresses and keys that it knows of the others. */
  readonly addresses: Reached;
  /** Runs of the holder's host on which it opens the session first. */
  readonly opened: CoveredRuns;
}

/**
 * Moves a disk from PUBLISHING to PUBLISHED, or from UNPUBLISHING to unpublished. The wanted state may change during
 * any await, so every step checks that its session number is still the disk's.
 *
 * A device whose host is UNAVAILABLE cannot grant a session. The disk then stays UNPUBLISHING, with an error that names
 * the host, until the host is back or purged: a fence is complete only when every device has confirmed it.
 */
export class PublicationWorker {
  readonly #running = new Map<DiskId, AbortController>();
  /** Refusals of the devices asked for a disk's session, by disk. */
  readonly #answers = new Map<DiskId, ReadonlyMap<DeviceId, string>>();

  constructor(private readonly context: WorkContext) {}

  /** Aborts the requests to the disk's agents, because the disk is being fenced. */
  abandon(diskId: DiskId): void {
    this.#running.get(diskId)?.abort(new AbortedError(`disk ${diskId} is being fenced: this attempt is obsolete`));
  }

  /** Returns, by device, why it refused the disk's session in the last try. */
  answersOf(diskId: DiskId): ReadonlyMap<DeviceId, string> {
    return this.#answers.get(diskId) ?? new Map();
  }

  async process(diskId: DiskId, closing: AbortSignal): Promise<WorkResult> {
    const abandoned = new AbortController();
    using ended = new EitherSignal(closing, abandoned.signal);
    this.#running.set(diskId, abandoned);
    try {
      return await this.#process(diskId, ended.signal, closing);
    } finally {
      this.#running.delete(diskId);
    }
  }

  async #process(diskId: DiskId, signal: AbortSignal, closing: AbortSignal): Promise<WorkResult> {
    const { tablet, fleet } = this.context;
    // The leader is read before the plan. When another generation is claimed in between, AgentClients sends nothing and
    // throws.
    const leader = fleet.leader();
    const planned = await tablet.read((tables) => planSession(tables, diskId));
    if (planned === undefined) {
      this.#answers.delete(diskId);
      return "done";
    }
    const plan: OrderedSession = { ...planned, leader };
    const startedMs = this.context.clock.monotonicMs();
    try {
      const complete = await this.#work(plan, signal);
      const more = await this.context.tablet.transact((tx) => {
        complete(tx);
        // The wanted state may have changed while the agents worked, so the disk may need another session.
        return planSession(tx, diskId) !== undefined;
      });
      notePhase(operationOf(plan), "total", this.context.clock.monotonicMs() - startedMs);
      return more ? { retryAfterMs: 0 } : "done";
    } catch (error) {
      closing.throwIfAborted();
      if (signal.aborted || !(await this.#isCurrent(plan))) return { retryAfterMs: 0 };
      await this.#recordFailure(plan, error);
      throw error;
    }
  }

  #work(plan: OrderedSession, signal: AbortSignal): Promise<Complete> {
    switch (plan.publication.state) {
      case "PUBLISHING":
        return this.#publish(plan, signal);
      case "PUBLISHED":
        return this.#change(plan, signal);
      case "UNPUBLISHING":
        return this.#unpublish(plan, signal);
    }
  }

  async #publish(plan: OrderedSession, signal: AbortSignal): Promise<Complete> {
    const { disk, publication } = plan;
    const target = requireTarget(plan);
    if (publication.unasked) {
      const isWanted = await this.context.tablet.transact((tx) => markAsked(tx, disk.diskId, publication));
      if (!isWanted)
        throw new AbortedError(`disk ${disk.diskId} is no longer to be published to host ${target.hostId}`);
    }
    const ofTarget = plan.mirror && (await this.#openMarked(plan, plan.mirror, signal));
    let served = ofTarget === undefined ? await this.#exportAtOnce(plan, target, signal) : undefined;
    if (served === undefined) {
      const addresses = await this.#openSessions(plan, plan.groups, signal);
      if (plan.mirror?.mark !== undefined)
        await this.context.tablet.transact((tx) => spendMarks(tx, disk.diskId, publication));
      served = await this.#exportMoving(plan, target, new Map([...addresses, ...(ofTarget ?? [])]), signal);
    }
    const made = served;
    return (tx) => completePublish(tx, disk.diskId, publication, made);
  }

  /** Brings the running export to the disk's present limits and devices, in the same session. */
  async #change(plan: OrderedSession, signal: AbortSignal): Promise<Complete> {
    const { disk, publication } = plan;
    const target = requireTarget(plan);
    const addresses = await this.#openSessions(plan, groupsOfOwnSessions(plan), signal);
    const ofTarget = plan.mirror && (await this.#openTarget(plan, plan.mirror, signal));
    await this.#exportMoving(plan, target, new Map([...addresses, ...(ofTarget ?? [])]), signal);
    return (tx) => completeChange(tx, disk.diskId, publication);
  }

  /** Has the host serve the disk. A move that it refuses several times ends. */
  async #exportMoving(
    plan: OrderedSession,
    target: Host,
    addresses: Reached,
    signal: AbortSignal,
  ): Promise<ExportDiskResponse> {
    try {
      return await this.#exportDisk(plan, target, { addresses, opened: NO_RUNS }, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (plan.mirror !== undefined && plan.publication.attempts >= TRIES_OF_MIRROR)
        await this.#failMirror(plan, messageOf(error), { isOfTarget: false });
      throw error;
    }
  }

  /** Opens the sessions of a move that goes on, if nobody else had one since it was marked. */
  async #openMarked(plan: OrderedSession, mirror: MirrorTarget, signal: AbortSignal): Promise<Reached> {
    // The target may be there again for the next try of the move.
    if (mirror.lost !== undefined) return this.#failMirror(plan, mirror.lost, { isOfTarget: false });
    const source = mirror.mark && groupOfSource(plan, mirror);
    if (source !== undefined) {
      const grant = await this.#openSession(plan, { ...source, formerNumber: mirror.mark?.sourceSession }, signal);
      await this.#requireCurrent(plan);
      if (grant.kind !== "granted" && grant.pending.length > 0) throw new NotGrantedError([grant]);
      if (grant.kind !== "granted") await this.#failMirror(plan, grant.error, { isOfTarget: false });
    }
    return this.#openTarget(plan, mirror, signal);
  }

  /** Opens the session of a move's target. A refusal ends only this try of the move, never the disk's I/O. */
  async #openTarget(plan: OrderedSession, mirror: MirrorTarget, signal: AbortSignal): Promise<Reached> {
    const { lost, group, mark } = mirror;
    if (lost !== undefined || group === undefined) return this.#failMirror(plan, lost ?? "", { isOfTarget: true });
    const grant = await this.#openSession(plan, { ...group, formerNumber: mark?.targetSession }, signal);
    await this.#requireCurrent(plan);
    if (grant.kind === "granted") return reachedBy(grant, plan, group);
    // The device waits until its agent has no I/O of former sessions left.
    if (grant.pending.length > 0) throw new NotGrantedError([grant]);
    return this.#failMirror(plan, grant.error, { isOfTarget: grant.kind !== "outdated" });
  }

  async #failMirror(
    { disk, publication }: SessionPlan,
    error: string,
    { isOfTarget }: { readonly isOfTarget: boolean },
  ): Promise<never> {
    await this.context.tablet.transact((tx) => failMirror(tx, disk.diskId, publication, error, { isOfTarget }));
    throw new UnavailableError(`the target of the move: ${error}`);
  }

  async #unpublish(plan: OrderedSession, signal: AbortSignal): Promise<Complete> {
    const { disk, publication, target } = plan;
    // An unpublication has the host write back what it caches and end its export first. A fence does not wait for the
    // host, nor does an unpublication from a host that cannot answer.
    const isFriendly = !isFence(disk) && target !== undefined && !isAway(target);
    const ending: OrderedSession = isFriendly ? { ...plan, isClean: true } : plan;
    const told = endExport(this.context, ending, { isFriendly, signal });
    const granted = new Set<string>();
    if (isFriendly) {
      const answer = await told;
      if ("error" in answer) throw answer.error;
      for (const deviceId of answer.granted) granted.add(deviceId);
    }
    await this.#openSessions(ending, without(plan.groups, granted), signal);
    if (plan.blocked !== undefined) throw new UnavailableError(plan.blocked);
    const isTold = told.then((answer) => "granted" in answer);
    const isHostTold = await within(this.context.clock, FENCED_HOST_MS, isTold);
    return (tx) => completeUnpublish(tx, disk.diskId, publication, isHostTold);
  }

  /** Resolves when every device of these groups has granted the session, to the addresses of the devices. */
  async #openSessions(plan: OrderedSession, groups: readonly SessionGroup[], signal: AbortSignal): Promise<Reached> {
    const asked = groups.flatMap(({ devices }) => devices.map(({ deviceId }) => deviceId));
    const answers = new Map(asked.map((deviceId) => [deviceId, "its agent has not answered yet"]));
    this.#answers.set(plan.disk.diskId, answers);
    const startedMs = this.context.clock.monotonicMs();
    const grants = await Promise.all(
      groups.map(async (group) => {
        const grant = await this.#openSession(plan, group, signal);
        for (const { deviceId } of group.devices)
          if (grant.kind === "granted") answers.delete(deviceId);
          else answers.set(deviceId, grant.error);
        return grant;
      }),
    );
    await this.#requireCurrent(plan);
    const refused = grants.filter((grant) => grant.kind !== "granted");
    if (refused.length === 0) {
      notePhase(operationOf(plan), "session", this.context.clock.monotonicMs() - startedMs);
      return new Map(groups.flatMap((group, index) => [...reachedBy(grants[index], plan, group)]));
    }
    if (refused.some((grant) => grant.kind === "outdated")) await this.#renew(plan);
    throw new NotGrantedError(refused);
  }

  /** `formerNumber`: session that the devices must have had last. */
  async #openSession(
    plan: OrderedSession,
    group: SessionGroup & { readonly formerNumber?: number | undefined },
    signal: AbortSignal,
  ): Promise<Grant> {
    const { agents, limits } = this.context;
    const { host, devices, sessionNumber = plan.publication.sessionNumber, formerNumber = 0 } = group;
    const asked = recordedRuns(plan, devices, group.sessionNumber);
    const request = {
      bootId: host.bootId,
      stamp: leaderStamp(plan.leader),
      sessionNumber,
      diskId: plan.disk.diskId,
      holderHostId: plan.holderHostId,
      deviceIds: [...asked.deviceIds],
      runs: [...asked.runs],
      formerSessionNumber: formerNumber,
      ...(isElsewhere(plan, host) && { sessionKey: this.#keyOf(plan, host.hostId, sessionNumber) }),
    };
    try {
      const deadlineMs = limits.agentTimeoutMs;
      const response = await agents.order(host, { leader: plan.leader, deadlineMs }, (client) =>
        client.openSession(request, { signal, deadlineMs }),
      );
      return grantOf(host, asked, response.outcomes, this.context.clock.nowMs());
    } catch (error) {
      signal.throwIfAborted();
      return { kind: "refused", error: `opening the session on host ${host.hostId}: ${messageOf(error)}`, pending: [] };
    }
  }

  /**
   * Publishes in a single order when the host has all the devices and they grant the session at once. Returns
   * undefined when another device or an old agent prevents that; the caller then runs each step separately, which also
   * reports its errors separately.
   */
  async #exportAtOnce(plan: OrderedSession, host: Host, signal: AbortSignal): Promise<ExportDiskResponse | undefined> {
    const opened = runsOfTarget(plan);
    const own = [...opened.deviceIds, ...opened.runs.map(({ deviceId }) => deviceId)];
    if (own.length === 0 || plan.groups.length > 1) return undefined;
    try {
      const served = await this.#exportDisk(plan, host, { addresses: new Map(), opened }, signal);
      const granted = grantedOf(opened, served.outcomes);
      const isServed = served.exportPath !== "" && own.every((deviceId) => granted.has(deviceId));
      return isServed ? served : undefined;
    } catch (error) {
      // Trying the steps separately would only wait for another timeout.
      if (signal.aborted || (error as Error).cause instanceof TimeoutError) throw error;
      return undefined;
    }
  }

  async #exportDisk(
    plan: OrderedSession,
    host: Host,
    { addresses, opened }: ExportOptions,
    signal: AbortSignal,
  ): Promise<ExportDiskResponse> {
    const { agents, limits } = this.context;
    const keyOf = (hostId: HostId, sessionNumber: number) => this.#keyOf(plan, hostId, sessionNumber);
    const request = {
      bootId: host.bootId,
      stamp: leaderStamp(plan.leader),
      diskId: plan.disk.diskId,
      sessionNumber: plan.publication.sessionNumber,
      blockSizeBytes: plan.disk.blockSizeBytes,
      extents: plan.extents.map(({ target, ...extent }) => ({
        ...extent,
        ...accessTo(plan, extent, addresses, keyOf),
        ...(target && {
          target: { ...target, ...accessTo(plan, target, addresses, keyOf) },
          // The move asks soon, with the share that is its own by then.
          bytesPerSecond: copyBytesPerSecond(this.context.config, SMALL_COPIES),
        }),
      })),
      openDeviceIds: [...opened.deviceIds],
      openRuns: [...opened.runs],
      readOnly: plan.publication.readOnly ?? false,
      limits: plan.disk.limits && { ...plan.disk.limits },
      exportKind: ExportKind[plan.disk.exportKind ?? "UNSPECIFIED"],
      revision: plan.publication.revision ?? 0,
    };
    try {
      const deadlineMs = limits.agentTimeoutMs;
      const startedMs = this.context.clock.monotonicMs();
      const send = (client: AgentClient) => client.exportDisk(request, { signal, deadlineMs });
      const answer = await agents.order(host, { leader: plan.leader, deadlineMs }, send);
      notePhase(operationOf(plan), "export", this.context.clock.monotonicMs() - startedMs);
      return answer;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof OutdatedError && opened === NO_RUNS) await this.#renew(plan);
      throw new UnavailableError(`exporting on host ${host.hostId}: ${messageOf(error)}`, { cause: error });
    }
  }

  async #requireCurrent(plan: OrderedSession): Promise<void> {
    if (await this.#isCurrent(plan)) return;
    const { disk, publication } = plan;
    throw new AbortedError(`disk ${disk.diskId}: a newer session has replaced session ${publication.sessionNumber}`);
  }

  #isCurrent({ disk, publication }: SessionPlan): Promise<boolean> {
    return this.context.tablet.read((tables) => isCurrent(tables, disk.diskId, publication));
  }

  /** Returns the key with which the holder reaches the devices of a host. */
  #keyOf({ disk }: SessionPlan, hostId: HostId, sessionNumber: number): Buffer {
    return this.context.sessionKeys.keyOf({ diskId: disk.diskId, sessionNumber, hostId });
  }

  #renew({ disk, publication }: SessionPlan): Promise<void> {
    return this.context.tablet.transact((tx) => renewSession(tx, disk.diskId, publication));
  }

  async #recordFailure({ disk, publication }: SessionPlan, error: unknown): Promise<void> {
    const pending = error instanceof NotGrantedError ? error.refusals.flatMap((refusal) => refusal.pending) : [];
    await this.context.tablet.transact((tx) =>
      recordPublicationFailure(tx, disk.diskId, publication, messageOf(error), pending),
    );
  }
}
