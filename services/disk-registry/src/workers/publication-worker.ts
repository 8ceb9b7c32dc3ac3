import { AbortedError, type DeviceId, type DiskId, messageOf, OutdatedError, UnavailableError } from "@diskmesh/domain";
import { EitherSignal, type WorkResult } from "@diskmesh/service";
import type { AgentClient } from "../agents/agent-clients.js";
import { type DeviceOutcome, type Leader, whyNotTold, whyNotToldToLetGo } from "../model/orders.js";
import { pendingOf, pendingText } from "../model/pending.js";
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
} from "../model/publications.js";
import type { Host, PendingDevice, RegistryTransaction } from "../model/schema.js";
import { leaderStamp, outcomeOf } from "../requests/wire.js";
import type { WorkContext } from "./work-context.js";

/** How long a fence that is complete waits for the host's word that it serves the disk no more. */
const FENCED_HOST_MS = 200;

/** What remains to be stored once everything outside is done. */
type Complete = (tx: RegistryTransaction) => void;

/** A plan, and whose stamps its orders have. */
type OrderedSession = SessionPlan & { readonly leader: Leader };

/** What one agent said to a session: granted by all its devices, or why not. */
type Grant = { readonly kind: "granted" } | Refusal;

interface Refusal {
  readonly kind: "refused" | "outdated";
  readonly error: string;
  /** Devices that will grant it once what they wait for is over. */
  readonly pending: readonly PendingDevice[];
}

/** Not every device granted the session. */
class NotGrantedError extends UnavailableError {
  constructor(readonly refusals: readonly Refusal[]) {
    super(refusals.map((refusal) => refusal.error).join("; "));
  }
}

/**
 * Brings one disk from PUBLISHING to PUBLISHED, or from UNPUBLISHING to unpublished. Whatever was awaited may have been
 * overtaken, so every step looks again whether its session number is still the disk's.
 *
 * A device whose host is UNAVAILABLE can grant nothing: the disk stays UNPUBLISHING, with an error that names the host,
 * until the host is back or is purged. Nobody may believe in a fence that a device has not confirmed.
 */
export class PublicationWorker {
  readonly #running = new Map<DiskId, AbortController>();
  /** By disk: what devices said that were asked for its session, unless they granted it. */
  readonly #answers = new Map<DiskId, ReadonlyMap<DeviceId, string>>();

  constructor(private readonly context: WorkContext) {}

  /** Something else is wanted of the disk: whoever does not answer is not waited for. */
  abandon(diskId: DiskId): void {
    this.#running.get(diskId)?.abort(new AbortedError(`something else is wanted of disk ${diskId}`));
  }

  /** Why devices have not granted the disk's session that were asked for it last. */
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
    // Of before the plan: what is planned is not sent under a generation that was claimed since.
    const leader = fleet.leader();
    const planned = await tablet.read((tables) => planSession(tables, diskId));
    if (planned === undefined) {
      this.#answers.delete(diskId);
      return "done";
    }
    const plan: OrderedSession = { ...planned, leader };
    try {
      const complete = await (plan.publication.state === "PUBLISHING"
        ? this.#publish(plan, signal)
        : this.#unpublish(plan, signal));
      const more = await this.context.tablet.transact((tx) => {
        complete(tx);
        // Something newer may have been wanted meanwhile.
        return planSession(tx, diskId) !== undefined;
      });
      return more ? { retryAfterMs: 0 } : "done";
    } catch (error) {
      closing.throwIfAborted();
      if (signal.aborted || !(await this.#isCurrent(plan))) return { retryAfterMs: 0 };
      await this.#recordFailure(plan, error);
      throw error;
    }
  }

  async #publish(plan: OrderedSession, signal: AbortSignal): Promise<Complete> {
    const { disk, publication, target } = plan;
    if (plan.blocked !== undefined) throw new UnavailableError(plan.blocked);
    if (target === undefined) throw new UnavailableError(`host ${publication.hostId} was purged`);
    const whyNot = whyNotTold(target);
    if (whyNot !== undefined) throw new UnavailableError(whyNot);
    if (publication.unasked) {
      const isWanted = await this.context.tablet.transact((tx) => markAsked(tx, disk.diskId, publication));
      if (!isWanted) throw new AbortedError(`disk ${disk.diskId} is not wanted on host ${target.hostId} any more`);
    }
    await this.#openSessions(plan, signal);
    const exportPath = await this.#exportDisk(plan, target, signal);
    return (tx) => completePublish(tx, disk.diskId, publication, exportPath);
  }

  async #unpublish(plan: OrderedSession, signal: AbortSignal): Promise<Complete> {
    const { disk, publication } = plan;
    const told = this.#unexport(plan, signal);
    // Mostly the friendly way, so that what the host has in flight still reaches the devices. A fence waits for no host.
    if (!isFence(disk)) await told;
    await this.#openSessions(plan, signal);
    if (plan.blocked !== undefined) throw new UnavailableError(plan.blocked);
    const isHostTold = await this.#within(FENCED_HOST_MS, told);
    return (tx) => completeUnpublish(tx, disk.diskId, publication, isHostTold);
  }

  /** Resolves when every device that can be asked has granted the session. */
  async #openSessions(plan: OrderedSession, signal: AbortSignal): Promise<void> {
    const asked = plan.groups.flatMap((group) => group.deviceIds);
    const answers = new Map(asked.map((deviceId) => [deviceId, "its agent has not answered yet"]));
    this.#answers.set(plan.disk.diskId, answers);
    const grants = await Promise.all(
      plan.groups.map(async (group) => {
        const grant = await this.#openSession(plan, group, signal);
        for (const deviceId of group.deviceIds)
          if (grant.kind === "granted") answers.delete(deviceId);
          else answers.set(deviceId, grant.error);
        return grant;
      }),
    );
    await this.#requireCurrent(plan);
    const refused = grants.filter((grant) => grant.kind !== "granted");
    if (refused.length === 0) return;
    if (refused.some((grant) => grant.kind === "outdated")) await this.#renew(plan);
    throw new NotGrantedError(refused);
  }

  async #openSession(plan: OrderedSession, group: SessionGroup, signal: AbortSignal): Promise<Grant> {
    const { agents, config } = this.context;
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
      const deadlineMs = config.publications.rpcTimeoutMs;
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

  /** The first refusal is told in words; every device that waits is named. */
  #grantOf({ host, deviceIds }: SessionGroup, outcomes: ReadonlyMap<string, DeviceOutcome>): Grant {
    const nowMs = this.context.clock.nowMs();
    const pending: PendingDevice[] = [];
    let refusal: Refusal | undefined;
    for (const deviceId of deviceIds) {
      const outcome = outcomes.get(deviceId);
      if (outcome?.code === "DONE" || outcome?.code === "ALREADY") continue;
      const waits = outcome?.code === "PENDING" ? pendingOf(outcome, undefined, nowMs) : undefined;
      if (waits !== undefined) pending.push({ deviceId, ...waits });
      const message = waits === undefined ? outcome?.message : pendingText(waits, nowMs);
      const said = outcome === undefined ? "was not named in the answer" : `${outcome.code}: ${message}`;
      const error = `opening the session on device ${deviceId} of host ${host.hostId}: ${said}`;
      refusal ??= { kind: outcome?.code === "OUTDATED" ? "outdated" : "refused", error, pending };
    }
    return refusal ?? { kind: "granted" };
  }

  async #exportDisk(plan: OrderedSession, host: Host, signal: AbortSignal): Promise<string> {
    const { agents, config } = this.context;
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
    };
    try {
      const deadlineMs = config.publications.rpcTimeoutMs;
      const send = (client: AgentClient) => client.exportDisk(request, { signal, deadlineMs });
      return (await agents.order(host, { leader: plan.leader, deadlineMs }, send)).exportPath;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof OutdatedError) await this.#renew(plan);
      throw new UnavailableError(`exporting on host ${host.hostId}: ${messageOf(error)}`, { cause: error });
    }
  }

  /** Best effort: a host that does not hear it is fenced off all the same. Says whether it serves the disk no more. */
  async #unexport(plan: OrderedSession, signal: AbortSignal): Promise<boolean> {
    const { agents, config, log, liveness } = this.context;
    const { disk, publication, target: host } = plan;
    if (host === undefined) return true;
    if (whyNotToldToLetGo(host) !== undefined) return false;
    if (isFence(disk) && liveness.whySuspected(host.hostId) !== undefined) return false;
    const request = {
      bootId: host.bootId,
      stamp: leaderStamp(plan.leader),
      diskId: disk.diskId,
      sessionNumber: publication.sessionNumber,
    };
    try {
      const deadlineMs = config.publications.unexportTimeoutMs;
      await agents.order(host, { leader: plan.leader, deadlineMs }, (client) =>
        client.unexportDisk(request, { signal, deadlineMs }),
      );
      return true;
    } catch (error) {
      log.info({ hostId: host.hostId, diskId: disk.diskId, error: messageOf(error) }, "the export could not be ended");
      return false;
    }
  }

  /** What is not known by then does not count. */
  async #within(timeMs: number, told: Promise<boolean>): Promise<boolean> {
    const timer = new AbortController();
    const timeIsUp = this.context.clock.sleep(timeMs, timer.signal).then(
      () => false,
      () => false,
    );
    const isTold = await Promise.race([told, timeIsUp]);
    timer.abort();
    return isTold;
  }

  async #requireCurrent(plan: OrderedSession): Promise<void> {
    if (await this.#isCurrent(plan)) return;
    const { disk, publication } = plan;
    throw new AbortedError(`disk ${disk.diskId}: session ${publication.sessionNumber} was overtaken`);
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
