import { DomainError } from "@diskmesh/domain";
import { AgentError } from "@diskmesh/mbus";
import type { Begun } from "../audit/events.js";
import type { CpiTarget } from "../cpi/cpi-calls.js";
import { CpiCallError, tolerate } from "../cpi/cpi-error.js";
import { recorded } from "../cpi/cpi-target.js";
import { cpiFacts, type Making, makeOnce, recordMade } from "../cpi/make-once.js";
import type { Target } from "../instances/instance.js";
import { cpiToRecord } from "../specs/cpi-choice.js";
import type { DiskRecord } from "../store/disk.js";
import type { Json, JsonObject } from "../store/json.js";
import type { OwedRemoval } from "../store/owed-removal.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { DiskJobContext } from "./context.js";
import type { DiskKind } from "./disk-kind.js";
import { forgetOwedRemovals, settleBeforeAttach } from "./forget.js";

/** A disk before and after a change. */
interface Changed<Kept> {
  readonly before: Kept;
  readonly disk: Kept;
}

/** A disk before and after the intent of a CPI call, with the call's begun event. */
export interface Intended<Kept> extends Changed<Kept> {
  readonly begun: Begun;
}

type AttachTarget = Omit<Target, "deployment" | "az" | "cpi">;

/** The steps that dynamic and persistent disks share, in a task that holds the lock on the disk's record. */
export class DiskSteps<Kept extends DiskRecord> {
  constructor(
    private readonly context: DiskJobContext,
    private readonly run: TaskRun,
    private readonly kind: DiskKind<Kept>,
    private readonly key: string,
    private readonly table: (tx: DirectorTransaction) => {
      get(key: string): Kept | undefined;
      put(disk: Kept): void;
      delete(key: string): boolean;
    },
  ) {}

  /** Records what the disk becomes; returns what it was, and what it is. */
  change(next: (disk: Kept, tx: DirectorTransaction) => Kept): Promise<Changed<Kept>> {
    return this.context.tablet.transact((tx) => this.changeIn(tx, next));
  }

  /** The same within a transaction. */
  changeIn(tx: DirectorTransaction, next: (disk: Kept, tx: DirectorTransaction) => Kept): Changed<Kept> {
    const before = this.table(tx).get(this.key);
    // The lock is held: nobody else can have deleted it.
    if (before === undefined) throw new TypeError("a disk vanished while it was locked");
    const disk = next(before, tx);
    this.table(tx).put(disk);
    return { before, disk };
  }

  /** Makes a disk whose intent is recorded. Its record is gone when it surely was not made, or nobody could tell. */
  async make(disk: Kept, { target, cloudProperties, vmCid, ...intent }: DiskMaking): Promise<void> {
    const { context, run } = this;
    const { cpi, az, deployment, sizeMib } = disk;
    const { findsByToken } = await cpiFacts(context, run, target);
    const drop = (tx: DirectorTransaction) => this.table(tx).delete(this.key);
    const making = { ...intent, kind: "disk", cpi, az, deployment, findsByToken, drop } as const;
    const request = { sizeMib, cloudProperties: { ...cloudProperties }, vmCid, az, token: intent.token };
    const made = await makeOnce(context, run, making, (options) =>
      context.cpi.call("createDisk", target, request, run, options),
    );
    if (made === undefined) return;
    const given = { diskCid: made.diskCid, cpi: cpiToRecord(cpi, made.cpi) };
    await recordMade(context, run, making, { ...given, cid: given.diskCid }, (tx) =>
      this.changeIn(tx, (current) => this.kind.created(current, given)),
    );
  }

  /** Attaches the disk to the VM. Its agent is told by another step. */
  async attach(diskCid: string, target: AttachTarget): Promise<void> {
    await settleBeforeAttach(this.context, this.run, target, diskCid);
    const intended = await this.context.tablet.transact((tx) => this.intendAttachIn(tx, target));
    const { recorded } = await this.attachIntended(intended, target);
    await recorded;
  }

  /** Within a transaction. What its VM's agent owes is settled. */
  intendAttachIn(tx: DirectorTransaction, target: AttachTarget): Intended<Kept> {
    const attachmentId = this.context.newId();
    const changed = this.changeIn(tx, (current) => this.kind.intendAttach(current, target, attachmentId));
    const request = { vmCid: target.vmCid, diskCid: changed.disk.diskCid };
    return { ...changed, begun: this.context.cpi.note(tx, "attachDisk", request, this.run) };
  }

  /** Within a transaction. */
  intendDetachIn(tx: DirectorTransaction): Intended<Kept> {
    const changed = this.changeIn(tx, (disk) => this.kind.moved(disk, "intend_detach"));
    const { vmCid, diskCid } = changed.disk;
    return { ...changed, begun: this.context.cpi.note(tx, "detachDisk", { vmCid, diskCid }, this.run) };
  }

  /** Attaches a disk whose attaching is intended. That it is attached is durable once `recorded` has resolved. */
  async attachIntended(
    { before, disk, begun }: Intended<Kept>,
    target: AttachTarget,
  ): Promise<{ readonly recorded: Promise<unknown> }> {
    const { kind } = this;
    const { diskCid } = disk;
    const { vmCid, stemcellApiVersion, agentId } = target;
    const cpi = { ...recorded(disk), stemcellApiVersion };
    try {
      const request = { vmCid, diskCid };
      const { diskHint } = await this.context.cpi.call("attachDisk", cpi, request, this.run, { begun });
      const recorded = this.change((current, tx) => {
        // The agent shall have a link for it again.
        forgetOwedRemovals(tx, agentId, diskCid);
        return kind.attached(current, (diskHint ?? null) as Json);
      });
      // A caller that does not await it goes on with a transaction, which then fails as well.
      recorded.catch(() => {});
      return { recorded };
    } catch (error) {
      const surelyNot = error instanceof CpiCallError && error.outcome === "not_done" && before.state === "detached";
      if (surelyNot) await this.change((current) => kind.notAttached(current));
      throw error;
    }
  }

  /** Has the CPI detach a disk whose detaching is intended. That it is detached is to be recorded by `detachedIn`. */
  async detach(disk: Kept, stemcellApiVersion: number, begun?: Begun): Promise<void> {
    const { vmCid, diskCid } = disk;
    const target = { ...recorded(disk), stemcellApiVersion };
    const options = begun === undefined ? {} : { begun };
    const call = this.context.cpi.call("detachDisk", target, { vmCid, diskCid }, this.run, options);
    await tolerate(call, (error) => error.isOf(...NOT_ATTACHED));
  }

  /** Within a transaction. `owed` is recorded with it. */
  detachedIn(tx: DirectorTransaction, owed?: OwedRemoval): void {
    if (owed !== undefined) tx.owedRemovals.put(owed);
    this.changeIn(tx, (current) => this.kind.detached(current));
  }

  /** Has the infrastructure remember it, if it can: that is optional in the CPI contract. */
  async setMetadata(disk: Kept, metadata: JsonObject): Promise<void> {
    const request = { diskCid: disk.diskCid, metadata };
    await this.context.cpi.callIfKnown("setDiskMetadata", recorded(disk), request, this.run);
  }
}

/** CPI errors after which a disk is surely not attached to that VM. */
export const NOT_ATTACHED = ["DISK_NOT_ATTACHED", "VM_NOT_FOUND", "DISK_NOT_FOUND"] as const;

interface DiskMaking extends Pick<Making, "token" | "madeFor" | "begunBefore"> {
  readonly target: CpiTarget;
  readonly cloudProperties: JsonObject;
  /** The VM near which it is made; empty for none. */
  readonly vmCid: string;
}

/** Returns whether there was one. */
export async function deleteWithCpi(
  context: DiskJobContext,
  run: TaskRun,
  target: CpiTarget,
  diskCid: string,
): Promise<boolean> {
  const call = context.cpi.call("deleteDisk", target, { diskCid }, run);
  return (await tolerate(call, (error) => error.isOf("DISK_NOT_FOUND"))) !== undefined;
}

/**
 * Tells an agent to let go of a disk, while its VM can still reach it. One that cannot be told holds nothing back: the CPI
 * takes the disk from the VM whether it let go or not. With `mustLetGo`, one that says it cannot, e.g. because the disk is
 * in use, does. What is no answer of an agent is a fault of ours, and is never passed over. Returns whether it let go.
 */
export async function tellToForget(
  run: TaskRun,
  event: { readonly stage: string; readonly task: string },
  telling: Promise<void>,
  { mustLetGo }: { readonly mustLetGo: boolean },
): Promise<boolean> {
  try {
    await telling;
    return true;
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof DomainError)) throw error;
    if (mustLetGo && error instanceof AgentError && !error.isOfUnknownThing) throw error;
    run.event({ ...event, state: "failed", message: `${error.message}; the disk is detached all the same` });
    return false;
  }
}
