import { randomUUID } from "node:crypto";
import { DomainError } from "@diskmesh/domain";
import { AgentError } from "@diskmesh/mbus";
import type { Begun } from "../audit/events.js";
import type { CpiTarget } from "../cpi/cpi-calls.js";
import { CpiCallError, tolerate } from "../cpi/cpi-error.js";
import { recorded } from "../cpi/cpi-target.js";
import { cpiFacts, type Making, makeOnce, recordMade } from "../cpi/make-once.js";
import type { Target } from "../instances/instance.js";
import { cpiToRecord } from "../specs/cpi-choice.js";
import { type DiskRecord, realSize } from "../store/disk.js";
import type { Json, JsonObject } from "../store/json.js";
import type { OwedRemoval } from "../store/owed-removal.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { DiskJobContext } from "./context.js";
import type { DiskKind } from "./disk-kind.js";
import { forgetOwedRemovals, settleBeforeAttach } from "./forget.js";

interface Changed<Kept> {
  readonly before: Kept;
  readonly disk: Kept;
}

/** A disk before and after the intent of a CPI call, with the call's begin event. */
export interface Intended<Kept> extends Changed<Kept> {
  readonly begun: Begun;
}

type AttachTarget = Omit<Target, "deployment" | "az" | "cpi"> & { readonly readOnly?: boolean };

/** The steps that dynamic and persistent disks share. The task must hold the lock on the disk's record. */
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

  /** Updates the record in a new transaction; returns the disk before and after. */
  change(next: (disk: Kept, tx: DirectorTransaction) => Kept): Promise<Changed<Kept>> {
    return this.context.tablet.transact((tx) => this.changeIn(tx, next));
  }

  /** Updates the record in the given transaction; returns the disk before and after. */
  changeIn(tx: DirectorTransaction, next: (disk: Kept, tx: DirectorTransaction) => Kept): Changed<Kept> {
    const before = this.table(tx).get(this.key);
    // The task holds the lock, so no other task can have deleted the record.
    if (before === undefined) throw new TypeError("a disk vanished while it was locked");
    const disk = next(before, tx);
    this.table(tx).put(disk);
    return { before, disk };
  }

  /**
   * Creates a disk whose intent is recorded. Removes the record when the disk was certainly not created, or when the
   * outcome is unknown and the CPI cannot find disks by token.
   */
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
      this.changeIn(tx, (current) => this.kind.created(current, { ...given, ...realSize(made.sizeBytes) })),
    );
  }

  /** Attaches the disk to the VM. Another step notifies the VM's agent. */
  async attach(diskCid: string, target: AttachTarget): Promise<void> {
    await settleBeforeAttach(this.context, this.run, target, diskCid);
    const intended = await this.context.tablet.transact((tx) => this.intendAttachIn(tx, target));
    const { recorded } = await this.attachIntended(intended, target);
    await recorded;
  }

  /** Records the intent to attach. Pending detach notifications of the VM's agent must be settled before. */
  intendAttachIn(tx: DirectorTransaction, target: AttachTarget): Intended<Kept> {
    const attachmentId = randomUUID();
    const changed = this.changeIn(tx, (current) => this.kind.intendAttach(current, target, attachmentId));
    const request = attachRequest(changed.disk);
    return { ...changed, begun: this.context.cpi.note(tx, "attachDisk", request, this.run) };
  }

  /** Records the intent to detach. */
  intendDetachIn(tx: DirectorTransaction): Intended<Kept> {
    const changed = this.changeIn(tx, (disk) => this.kind.moved(disk, "intend_detach"));
    const { vmCid, diskCid } = changed.disk;
    return { ...changed, begun: this.context.cpi.note(tx, "detachDisk", { vmCid, diskCid }, this.run) };
  }

  /** Attaches a disk whose attach intent is recorded. The attached state is durable once `recorded` resolves. */
  async attachIntended(
    { before, disk, begun }: Intended<Kept>,
    target: AttachTarget,
  ): Promise<{ readonly recorded: Promise<unknown> }> {
    const { kind } = this;
    const { diskCid } = disk;
    const { stemcellApiVersion, agentId } = target;
    const cpi = { ...recorded(disk), stemcellApiVersion };
    try {
      const request = attachRequest(disk);
      const { diskHint } = await this.context.cpi.call("attachDisk", cpi, request, this.run, { begun });
      const recorded = this.change((current, tx) => {
        // A pending detach notification would make the agent delete the new link of this disk.
        forgetOwedRemovals(tx, agentId, diskCid);
        return kind.attached(current, (diskHint ?? null) as Json);
      });
      // A caller that does not await `recorded` continues with a transaction, which then fails too.
      recorded.catch(() => {});
      return { recorded };
    } catch (error) {
      const surelyNot = error instanceof CpiCallError && error.outcome === "not_done" && before.state === "detached";
      if (surelyNot) await this.change((current) => kind.notAttached(current));
      throw error;
    }
  }

  /** Has the CPI detach a disk whose detach intent is recorded. The caller must record the result with `detachedIn`. */
  async detach(disk: Kept, stemcellApiVersion: number, begun?: Begun): Promise<void> {
    const { vmCid, diskCid } = disk;
    const target = { ...recorded(disk), stemcellApiVersion };
    const options = begun === undefined ? {} : { begun };
    const call = this.context.cpi.call("detachDisk", target, { vmCid, diskCid }, this.run, options);
    await tolerate(call, (error) => error.isOf(...NOT_ATTACHED));
  }

  /** Records the disk as detached, and the pending detach notification of its agent, if any. */
  detachedIn(tx: DirectorTransaction, owed?: OwedRemoval): void {
    if (owed !== undefined) tx.owedRemovals.put(owed);
    this.changeIn(tx, (current) => this.kind.detached(current));
  }

  /** Sets the metadata of the disk in the infrastructure. CPIs may lack the method. */
  async setMetadata(disk: Kept, metadata: JsonObject): Promise<void> {
    const request = { diskCid: disk.diskCid, metadata };
    await this.context.cpi.callIfKnown("setDiskMetadata", recorded(disk), request, this.run);
  }
}

function attachRequest({ vmCid, diskCid, readOnly = false }: DiskRecord & { readonly readOnly?: boolean | undefined }) {
  return { vmCid, diskCid, readOnly };
}

/** CPI errors that prove that the disk is not attached to the VM. */
export const NOT_ATTACHED = ["DISK_NOT_ATTACHED", "VM_NOT_FOUND", "DISK_NOT_FOUND"] as const;

interface DiskMaking extends Pick<Making, "token" | "madeFor" | "begunBefore"> {
  readonly target: CpiTarget;
  readonly cloudProperties: JsonObject;
  /** CID of the VM near which the disk is created; empty for none. */
  readonly vmCid: string;
}

/**
 * Tells an agent to release a disk while its VM can still reach the disk. Returns true when the agent released the
 * disk. A failure does not prevent the detach, because the CPI can detach without the agent. With `mustLetGo`, an error
 * from the agent is thrown, for example when the disk is in use, unless the agent does not know the disk. Errors that
 * are not DomainErrors are bugs and are always thrown.
 */
export async function requestRelease(
  run: TaskRun,
  event: { readonly stage: string; readonly task: string },
  request: Promise<void>,
  { mustLetGo }: { readonly mustLetGo: boolean },
): Promise<boolean> {
  try {
    await request;
    return true;
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof DomainError)) throw error;
    if (mustLetGo && error instanceof AgentError && !error.isOfUnknownThing) throw error;
    run.event({ ...event, state: "failed", message: `${error.message}; the disk is detached all the same` });
    return false;
  }
}
