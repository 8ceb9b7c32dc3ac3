import { DomainError, messageOf, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import type { CpiTarget, RepeatOptions } from "../cpi/cpi-calls.js";
import { CpiCallError } from "../cpi/cpi-error.js";
import { recorded } from "../cpi/cpi-target.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { Finding } from "../store/problem.js";
import type { DirectorTables } from "../store/schema.js";
import { sideBySide } from "../tasks/run-all.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { HealthJobContext } from "./context.js";
import {
  diskByCid,
  isInspectable,
  judgeVm,
  type KnownDisk,
  knownVms,
  misplacedDisks,
  missingDisk,
  unknownVms,
  type VmRecords,
  type VmSight,
  type VmVerdict,
  vmRecords,
} from "./scan.js";

/** The result of a read-only inspection of VMs and disks. */
export interface Inspection {
  readonly findings: readonly Finding[];
  readonly sights: ReadonlyMap<string, VmSight>;
  /** Existence of each disk by CID; undefined when the CPI did not report. */
  readonly diskExists: ReadonlyMap<string, boolean | undefined>;
  /** CPIs that listed their VMs. */
  readonly listed: ReadonlySet<string>;
  /** Objects that could not be inspected, with the reasons. */
  readonly unseen: ReadonlySet<string>;
}

/** Maximum number of inspections of an instance that other tasks lock or change meanwhile. */
const PAGE_SIZE = 1_000;
const TRIES = 4;
const BETWEEN_TRIES_MS = 250;
/** Maximum number of failures of a CPI method. An inspection does not call the method again afterwards. */
const CPI_FAILURES_MAX = 3;
/**
 * Maximum length of an agent's list of disks. A longer list is rejected as invalid, because no VM has so many disks.
 */
const CIDS_MAX = 10_000;

const UNSEEN: VmSight = {
  exists: undefined,
  attachedCids: undefined,
  agentAnswers: undefined,
  mountedCids: undefined,
  linkedCids: undefined,
};

/** The objects to inspect. */
export interface Subject {
  readonly instanceIds: readonly string[];
  readonly disks: readonly KnownDisk[];
  /** CPIs whose VMs may be orphaned. */
  readonly cpis: readonly string[];
}

export async function inspect(
  context: HealthJobContext,
  run: TaskRun,
  deployment: string,
  subject: Subject,
): Promise<Inspection> {
  const looking = new Looking(context, run);
  const { maxConcurrentChecks } = context.limits.agents;
  await sideBySide(subject.instanceIds, maxConcurrentChecks, (instanceId) => looking.atInstance(instanceId));
  await sideBySide(subject.disks, maxConcurrentChecks, (disk) => looking.atDisk(disk));
  await sideBySide(subject.cpis, maxConcurrentChecks, (cpi) => looking.atCpi(deployment, cpi));
  const { verdicts, sights, diskExists, listed, unknown, unseen } = looking;
  const gone = [...looking.missing.values()];
  const goneCids = new Set(gone.map(({ diskCid }) => diskCid));
  const misplaced = misplacedDisks(deployment, verdicts).filter(({ diskCid }) => !goneCids.has(diskCid));
  const findings = [...verdicts.flatMap((verdict) => verdict.findings), ...gone, ...misplaced, ...unknown];
  return { findings, sights, diskExists, listed, unseen };
}

class Looking {
  readonly verdicts: VmVerdict[] = [];
  readonly missing = new Map<string, Finding>();
  readonly sights = new Map<string, VmSight>();
  readonly diskExists = new Map<string, boolean | undefined>();
  readonly listed = new Set<string>();
  readonly unknown: Finding[] = [];
  readonly unseen = new Set<string>();
  readonly #cpiFailures = new Map<string, number>();

  constructor(
    private readonly context: HealthJobContext,
    private readonly run: TaskRun,
  ) {}

  /**
   * Inspects an instance. The records are read before and after; the result is discarded if another task changed them.
   */
  async atInstance(instanceId: string): Promise<void> {
    const { context, run } = this;
    for (let tries = 1; ; tries++) {
      const before = await context.tablet.read((tables) => vmRecords(tables, instanceId));
      if (before === undefined) return;
      const busyBefore = this.#otherOwner(instanceId);
      const sight = await this.#inspectVm(before.instance);
      const { verdict, isSame } = await context.tablet.read((tables) => judged(tables, before, sight));
      const owner = busyBefore ?? this.#otherOwner(instanceId);
      if (isSame && owner === undefined) {
        this.sights.set(instanceId, sight);
        this.verdicts.push(verdict);
        return;
      }
      if (tries >= TRIES) {
        const by = owner === undefined ? "others" : `task ${owner}`;
        this.unseen.add(`${formatInstance(before.instance)} was locked by ${by} during the whole scan`);
        return;
      }
      await context.clock.sleep(BETWEEN_TRIES_MS * tries, run.stopped);
    }
  }

  async atDisk(disk: KnownDisk): Promise<void> {
    const { diskCid, cpi, az } = disk;
    const answer = await this.#ask("has_disk", { cpi, az }, (target, options) =>
      this.context.cpi.call("hasDisk", target, { diskCid }, this.run, options),
    );
    this.diskExists.set(diskCid, answer?.exists);
    if (answer?.exists !== false) return;
    // The disk may have been deleted in the meantime.
    const now = await this.context.tablet.read((tables) => diskByCid(tables, diskCid));
    if (now !== undefined && !now.isLeaving && now.key === disk.key) this.missing.set(diskCid, missingDisk(now));
  }

  async atCpi(deployment: string, cpi: string): Promise<void> {
    const before = await this.context.tablet.read(knownVms);
    const vms = await this.#ask("list_vms", { cpi, az: "" }, (target, options) =>
      allPages(async (pageToken) => {
        const request = { pageSize: PAGE_SIZE, pageToken };
        const page = await this.context.cpi.call("listVms", target, request, this.run, options);
        return { items: page.vms, nextPageToken: page.nextPageToken };
      }),
    );
    if (vms === undefined) return;
    const after = await this.context.tablet.read(knownVms);
    this.listed.add(cpi);
    this.unknown.push(...unknownVms(deployment, cpi, vms, [before, after]));
  }

  #otherOwner(instanceId: string): number | undefined {
    const owner = this.context.lockOwner({ type: "instance", resource: instanceId });
    return owner === this.run.taskId ? undefined : owner;
  }

  async #inspectVm(instance: Instance): Promise<VmSight> {
    const { vmCid } = instance;
    if (!isInspectable(instance)) return { ...UNSEEN, exists: false };
    const { cpi } = this.context;
    const found = await this.#ask("has_vm", instance, (target, options) =>
      cpi.call("hasVm", target, { vmCid }, this.run, options),
    );
    const exists = found?.exists;
    if (exists === false) return { ...UNSEEN, exists };
    const attached = await this.#ask("get_disks", instance, (target, options) =>
      cpi.call("getDisks", target, { vmCid }, this.run, options),
    );
    const agentAnswers = await this.#hears(instance);
    const [mountedCids, linkedCids] = agentAnswers
      ? await Promise.all([this.#cidsBy(instance, "list_disk"), this.#cidsBy(instance, "list_dynamic_disks")])
      : [undefined, undefined];
    return { exists, attachedCids: attached?.diskCids, agentAnswers, mountedCids, linkedCids };
  }

  async #hears({ agentId }: Instance): Promise<boolean | undefined> {
    try {
      await this.context.agents.awaitAnswer(this.run, agentId, this.context.limits.agents.lostAfterMs);
      return true;
    } catch (error) {
      if (error instanceof TimeoutError) return false;
      if (!(error instanceof UnavailableError)) throw error;
      this.unseen.add("answers of agents, because NATS is not connected");
      return undefined;
    }
  }

  async #cidsBy({ agentId }: Instance, method: "list_disk" | "list_dynamic_disks"): Promise<string[] | undefined> {
    const { agents, limits } = this.context;
    const options = {
      signal: this.run.stopped,
      timeoutMs: limits.agents.lostAfterMs,
      unknownMethodIs: "ignored",
    } as const;
    try {
      const said = await agents.call(agentId, method, [], options);
      if (Array.isArray(said) && said.length <= CIDS_MAX && said.every((cid) => typeof cid === "string")) return said;
      // All agents that lack the method share an entry, because whole fleets may lack it.
      this.unseen.add(
        said === undefined ? `${method} of agents that lack it` : `${method} of agent ${agentId}: no list`,
      );
    } catch (error) {
      this.run.checkpoint();
      if (!(error instanceof DomainError)) throw error;
      this.unseen.add(`${method} of agent ${agentId}: ${messageOf(error)}`);
    }
    return undefined;
  }

  async #ask<Answer>(
    method: string,
    thing: Parameters<typeof recorded>[0],
    call: (target: CpiTarget, options: RepeatOptions) => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const key = `${method} of ${thing.cpi === "" ? "the default CPI" : `CPI ${thing.cpi}`}`;
    const failures = this.#cpiFailures.get(key) ?? 0;
    if (failures >= CPI_FAILURES_MAX) return undefined;
    try {
      return await call(recorded(thing), { timeoutMs: this.context.limits.agents.lostAfterMs, repeatUnknown: false });
    } catch (error) {
      this.run.checkpoint();
      if (!(error instanceof CpiCallError)) throw error;
      // The VM or disk was deleted after the previous call.
      if (error.isOf("VM_NOT_FOUND", "DISK_NOT_FOUND")) return undefined;
      this.#cpiFailures.set(key, error.isNotImplemented ? CPI_FAILURES_MAX : failures + 1);
      this.unseen.add(`${key}: ${messageOf(error)}`);
      return undefined;
    }
  }
}

function judged(
  tables: DirectorTables,
  before: VmRecords,
  sight: VmSight,
): { readonly verdict: VmVerdict; readonly isSame: boolean } {
  const now = vmRecords(tables, before.instance.instanceId);
  const verdict = judgeVm(before, sight, (diskCid) => diskByCid(tables, diskCid));
  return { verdict, isSame: JSON.stringify(recordsText(now)) === JSON.stringify(recordsText(before)) };
}

/** Returns the records that a verdict depends on, for a comparison before and after the inspection. */
function recordsText(records: VmRecords | undefined): unknown {
  if (records === undefined) return undefined;
  const { instanceId, vmCid, agentId, vmState } = records.instance;
  return [instanceId, vmCid, agentId, vmState, records.disks, [...records.owedCids]];
}
