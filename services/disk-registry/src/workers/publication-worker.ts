import type { ExportDiskResponse, DeviceOutcome as OutcomeMessage } from "@diskmesh/api/internal";
import { ExportKind } from "@diskmesh/api/registry";
import {
  AbortedError,
  type DeviceId,
  type DiskId,
  messageOf,
  OutdatedError,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { EitherSignal, type WorkResult } from "@diskmesh/service";
import type { AgentClient } from "../agents/agent-clients.js";
import { notePhase } from "../metrics/phases.js";
import { type DeviceOutcome, type Leader, whyNotTold, whyNotToldToLetGo } from "../model/devices/orders.js";
import { pendingOf, pendingText } from "../model/devices/pending.js";
import { completeChange } from "../model/disks/export-changes.js";
import {
  completePublish,
  completeUnpublish,
  isCurrent,
  isFence,
  markAsked,
  planSession,
  recordPublicationFailure,
  renewSession,
  type SessionGroup,
  type SessionPlan,
} from "../model/disks/publications.js";
import type { Host, PendingDevice, RegistryTransaction } from "../model/store/schema.js";
import { leaderStamp, outcomeOf } from "../requests/wire.js";
import type { WorkContext } from "./work-context.js";

/** Time in ms that a complete fence waits for the host's confirmation that it no longer serves the disk. */
const FENCED_HOST_MS = 200;
/**
 * Abort reason of the timer once the host has answered. abort() without a reason would create an error with a stack
 * each time.
 */
const OVER = "the host has said it";

/** Transaction that completes the publication once all external work is done. */
type Complete = (tx: RegistryTransaction) => void;

/** A plan and the leader that stamps its orders. */
type OrderedSession = SessionPlan & { readonly leader: Leader };

/** Answer of one agent to a session: granted by all its devices, or refused. */
type Grant = { readonly kind: "granted" } | Refusal;

interface Refusal {
  readonly kind: "refused" | "outdated";
  readonly error: string;
  /** Devices that grant the session once their wait is over. */
  readonly pending: readonly PendingDevice[];
}

/** Thrown when not every device granted the session. */
class NotGrantedError extends UnavailableError {
  constructor(readonly refusals: readonly Refusal[]) {
    super(refusals.map((refusal) => refusal.error).join("; "));
  }
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
    let exportPath = await this.#exportAtOnce(plan, target, signal);
    if (exportPath === "") {
      await this.#openSessions(plan, plan.groups, signal);
      exportPath = (await this.#exportDisk(plan, target, [], signal)).exportPath;
    }
    return (tx) => completePublish(tx, disk.diskId, publication, exportPath);
  }

  /** Brings the running export to the disk's present limits, in the same session. */
  async #change(plan: OrderedSession, signal: AbortSignal): Promise<Complete> {
    const { disk, publication } = plan;
    await this.#exportDisk(plan, requireTarget(plan), [], signal);
    return (tx) => completeChange(tx, disk.diskId, publication);
  }

  async #unpublish(plan: OrderedSession, signal: AbortSignal): Promise<Complete> {
    const { disk, publication } = plan;
    // An unpublication asks the host to end its export first, so that in-flight I/O still reaches the devices. A fence
    // does not wait for the host.
    const isFriendly = !isFence(disk);
    const told = this.#unexport(plan, isFriendly ? devicesOfTarget(plan) : [], signal);
    const granted = new Set(isFriendly ? await told : []);
    await this.#openSessions(plan, without(plan.groups, granted), signal);
    if (plan.blocked !== undefined) throw new UnavailableError(plan.blocked);
    const isHostTold = await this.#within(
      FENCED_HOST_MS,
      told.then((grants) => grants !== undefined),
    );
    return (tx) => completeUnpublish(tx, disk.diskId, publication, isHostTold);
  }

  /** Resolves when every device of these groups has granted the session. */
  async #openSessions(plan: OrderedSession, groups: readonly SessionGroup[], signal: AbortSignal): Promise<void> {
    const asked = groups.flatMap((group) => group.deviceIds);
    const answers = new Map(asked.map((deviceId) => [deviceId, "its agent has not answered yet"]));
    this.#answers.set(plan.disk.diskId, answers);
    const startedMs = this.context.clock.monotonicMs();
    const grants = await Promise.all(
      groups.map(async (group) => {
        const grant = await this.#openSession(plan, group, signal);
        for (const deviceId of group.deviceIds)
          if (grant.kind === "granted") answers.delete(deviceId);
          else answers.set(deviceId, grant.error);
        return grant;
      }),
    );
    await this.#requireCurrent(plan);
    const refused = grants.filter((grant) => grant.kind !== "granted");
    if (refused.length === 0)
      return notePhase(operationOf(plan), "session", this.context.clock.monotonicMs() - startedMs);
    if (refused.some((grant) => grant.kind === "outdated")) await this.#renew(plan);
    throw new NotGrantedError(refused);
  }

  async #openSession(plan: OrderedSession, group: SessionGroup, signal: AbortSignal): Promise<Grant> {
    const { agents, limits } = this.context;
    const { host } = group;
    const request = {
      bootId: host.bootId,
      stamp: leaderStamp(plan.leader),
      sessionNumber: plan.publication.sessionNumber,
      diskId: plan.disk.diskId,
      holderHostId: plan.holderHostId,
      deviceIds: [...group.deviceIds],
    };
    try {
      const deadlineMs = limits.agentTimeoutMs;
      const response = await agents.order(host, { leader: plan.leader, deadlineMs }, (client) =>
        client.openSession(request, { signal, deadlineMs }),
      );
      const outcomes = new Map(response.outcomes.map((outcome) => [outcome.deviceId, outcomeOf(outcome)]));
      return this.#grantOf(group, outcomes);
    } catch (error) {
      signal.throwIfAborted();
      return { kind: "refused", error: `opening the session on host ${host.hostId}: ${messageOf(error)}`, pending: [] };
    }
  }

  /** The message contains only the first refusal, but `pending` lists every waiting device. */
  #grantOf({ host, deviceIds }: SessionGroup, outcomes: ReadonlyMap<string, DeviceOutcome>): Grant {
    const nowMs = this.context.clock.nowMs();
    const pending: PendingDevice[] = [];
    let refusal: Refusal | undefined;
    for (const deviceId of deviceIds) {
      const outcome = outcomes.get(deviceId);
      if (isGranted(outcome)) continue;
      const waits = outcome?.code === "PENDING" ? pendingOf(outcome, undefined, nowMs) : undefined;
      if (waits !== undefined) pending.push({ deviceId, ...waits });
      const message = waits === undefined ? outcome?.message : pendingText(waits, nowMs);
      const said = outcome === undefined ? "the answer does not name the device" : `${outcome.code}: ${message}`;
      const error = `opening the session on device ${deviceId} of host ${host.hostId}: ${said}`;
      refusal ??= { kind: outcome?.code === "OUTDATED" ? "outdated" : "refused", error, pending };
    }
    return refusal ?? { kind: "granted" };
  }

  /**
   * Publishes in a single order when the host has all the devices and they grant the session at once. Returns an empty
   * path when another device or an old agent prevents that; the caller then runs each step separately, which also
   * reports its errors separately.
   */
  async #exportAtOnce(plan: OrderedSession, host: Host, signal: AbortSignal): Promise<string> {
    const own = devicesOfTarget(plan);
    if (own.length === 0 || plan.groups.length > 1) return "";
    try {
      const { exportPath, outcomes } = await this.#exportDisk(plan, host, own, signal);
      const granted = grantedOf(outcomes);
      return own.every((deviceId) => granted.has(deviceId)) ? exportPath : "";
    } catch (error) {
      // Trying the steps separately would only wait for another timeout.
      if (signal.aborted || (error as Error).cause instanceof TimeoutError) throw error;
      return "";
    }
  }

  async #exportDisk(
    plan: OrderedSession,
    host: Host,
    openDeviceIds: readonly DeviceId[],
    signal: AbortSignal,
  ): Promise<ExportDiskResponse> {
    const { agents, limits } = this.context;
    const addresses = new Map(plan.groups.map((group) => [group.host.hostId, group.host.address]));
    const request = {
      bootId: host.bootId,
      stamp: leaderStamp(plan.leader),
      diskId: plan.disk.diskId,
      sessionNumber: plan.publication.sessionNumber,
      blockSizeBytes: plan.disk.blockSizeBytes,
      extents: plan.devices.map(({ deviceId, hostId, sizeBytes }) => ({
        deviceId,
        hostId,
        address: addresses.get(hostId) ?? "",
        sizeBytes,
      })),
      openDeviceIds: [...openDeviceIds],
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
      if (error instanceof OutdatedError && openDeviceIds.length === 0) await this.#renew(plan);
      throw new UnavailableError(`exporting on host ${host.hostId}: ${messageOf(error)}`, { cause: error });
    }
  }

  /**
   * Asks the host to end the export. The answer is not required, because the devices fence the host off in any case.
   * Returns the devices that have granted the new session in the same order; undefined when the host may still serve
   * the disk.
   */
  async #unexport(
    plan: OrderedSession,
    openDeviceIds: readonly DeviceId[],
    signal: AbortSignal,
  ): Promise<ReadonlySet<string> | undefined> {
    const { agents, limits, log, liveness } = this.context;
    const { disk, publication, target: host } = plan;
    if (host === undefined) return new Set();
    if (whyNotToldToLetGo(host) !== undefined) return undefined;
    if (isFence(disk) && liveness.whySuspected(host.hostId) !== undefined) return undefined;
    const request = {
      bootId: host.bootId,
      stamp: leaderStamp(plan.leader),
      diskId: disk.diskId,
      sessionNumber: publication.sessionNumber,
      openDeviceIds: [...openDeviceIds],
    };
    try {
      const deadlineMs = limits.unexportTimeoutMs;
      const startedMs = this.context.clock.monotonicMs();
      const { outcomes } = await agents.order(host, { leader: plan.leader, deadlineMs }, (client) =>
        client.unexportDisk(request, { signal, deadlineMs }),
      );
      notePhase("unpublish", "export", this.context.clock.monotonicMs() - startedMs);
      return grantedOf(outcomes);
    } catch (error) {
      log.info({ hostId: host.hostId, diskId: disk.diskId, error: messageOf(error) }, "unexport order failed");
      return undefined;
    }
  }

  /** Returns the answer, or false after `timeMs`. */
  async #within(timeMs: number, told: Promise<boolean>): Promise<boolean> {
    const timer = new AbortController();
    const timeIsUp = this.context.clock.sleep(timeMs, timer.signal).then(
      () => false,
      () => false,
    );
    const isTold = await Promise.race([told, timeIsUp]);
    timer.abort(OVER);
    return isTold;
  }

  async #requireCurrent(plan: OrderedSession): Promise<void> {
    if (await this.#isCurrent(plan)) return;
    const { disk, publication } = plan;
    throw new AbortedError(`disk ${disk.diskId}: a newer session has replaced session ${publication.sessionNumber}`);
  }

  #isCurrent({ disk, publication }: SessionPlan): Promise<boolean> {
    return this.context.tablet.read((tables) => isCurrent(tables, disk.diskId, publication));
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

const OPERATIONS = { PUBLISHING: "publish", PUBLISHED: "change", UNPUBLISHING: "unpublish" } as const;

function operationOf({ publication }: SessionPlan) {
  return OPERATIONS[publication.state];
}

/** Returns the host that is to serve the disk. Throws UnavailableError while the host or a device cannot be asked. */
function requireTarget({ blocked, publication, target }: SessionPlan): Host {
  if (blocked !== undefined) throw new UnavailableError(blocked);
  if (target === undefined) throw new UnavailableError(`host ${publication.hostId} was purged`);
  const whyNot = whyNotTold(target);
  if (whyNot !== undefined) throw new UnavailableError(whyNot);
  return target;
}

/** Returns the disk's devices that are on its target host. */
function devicesOfTarget({ groups, target }: SessionPlan): readonly DeviceId[] {
  return groups.find(({ host }) => host.hostId === target?.hostId)?.deviceIds ?? [];
}

function grantedOf(outcomes: readonly OutcomeMessage[]): ReadonlySet<string> {
  const granted = outcomes.map(outcomeOf).filter(isGranted);
  return new Set(granted.map(({ deviceId }) => deviceId));
}

function isGranted(outcome: DeviceOutcome | undefined): boolean {
  return outcome?.code === "DONE" || outcome?.code === "ALREADY";
}

function without(groups: readonly SessionGroup[], granted: ReadonlySet<string>): SessionGroup[] {
  const left = groups.map(({ host, deviceIds }) => ({ host, deviceIds: deviceIds.filter((id) => !granted.has(id)) }));
  return left.filter(({ deviceIds }) => deviceIds.length > 0);
}
