import { parseCid } from "@diskmesh/cpi";
import { DomainError } from "@diskmesh/domain";
import { AgentError } from "@diskmesh/mbus";
import type { CpiTarget } from "../cpi/cpi-calls.js";
import { CpiCallError, tolerate } from "../cpi/cpi-error.js";
import { cpiToRecord } from "../model/cpi-choice.js";
import { type Disk, dynamicDisks } from "../model/disk.js";
import type { DiskKind, DiskRecord } from "../model/disk-kind.js";
import type { Target } from "../model/instance.js";
import type { Json, JsonObject } from "../model/json.js";
import { type PersistentDisk, persistentDisks } from "../model/persistent-disk.js";
import type { DirectorTransaction } from "../model/schema.js";
import type { TaskRun } from "../workers/task-run.js";
import { recorded } from "./cpi-target.js";
import type { JobContext } from "./job-context.js";
import { cpiFacts, type Making, makeOnce } from "./make-once.js";

/**
 * Steps that dynamic and persistent disks have in common. Each records its intent, acts, and records what came of it, so
 * that whoever finds the intent can repeat the step. All need the lock under which the disk's record is changed.
 */

/** Where a disk is recorded, and how disks of its kind change. */
export interface StoredDisk<Kept extends DiskRecord> {
  readonly kind: DiskKind<Kept>;
  readonly key: string;
  readonly table: (tx: DirectorTransaction) => {
    get(key: string): Kept | undefined;
    put(disk: Kept): void;
    delete(key: string): boolean;
  };
}

export function dynamicDisk(name: string): StoredDisk<Disk> {
  return { kind: dynamicDisks, key: name, table: (tx) => tx.disks };
}

export function persistentDisk(diskId: string): StoredDisk<PersistentDisk> {
  return { kind: persistentDisks, key: diskId, table: (tx) => tx.persistentDisks };
}

/** Records what a disk becomes; returns what it was, and what it is. */
export async function change<Kept extends DiskRecord>(
  context: JobContext,
  { key, table }: StoredDisk<Kept>,
  next: (disk: Kept) => Kept,
): Promise<{ readonly before: Kept; readonly disk: Kept }> {
  return context.tablet.transact((tx) => {
    const before = table(tx).get(key);
    // The lock is held: nobody else can have deleted it.
    if (before === undefined) throw new TypeError("a disk vanished while it was locked");
    const disk = next(before);
    table(tx).put(disk);
    return { before, disk };
  });
}

export interface DiskMaking extends Pick<Making, "token" | "madeFor" | "begunBefore"> {
  readonly target: CpiTarget;
  readonly cloudProperties: JsonObject;
  /** The VM near which it is made; empty for none. */
  readonly vmCid: string;
}

/** Makes a disk whose intent is recorded. Its record is gone when it surely was not made, or nobody could tell. */
export async function make<Kept extends DiskRecord>(
  context: JobContext,
  run: TaskRun,
  stored: StoredDisk<Kept>,
  { cpi, az, deployment, sizeMib }: Kept,
  { token, madeFor, begunBefore, target, cloudProperties, vmCid }: DiskMaking,
): Promise<void> {
  const { findsByToken } = await cpiFacts(context, run, target);
  const drop = (tx: DirectorTransaction) => stored.table(tx).delete(stored.key);
  const making = { kind: "disk", token, cpi, az, deployment, madeFor, findsByToken, begunBefore, drop } as const;
  const request = { sizeMib, cloudProperties: { ...cloudProperties }, vmCid, az, token };
  const made = await makeOnce(context, run, making, (options) =>
    context.cpi.call("createDisk", target, request, run, options),
  );
  if (made === undefined) return;
  const diskCid = parseCid("disk", made.diskCid);
  await change(context, stored, (disk) => stored.kind.created(disk, { diskCid, cpi: cpiToRecord(cpi, made.cpi) }));
}

/** Attaches the disk to the VM. Its agent is told by another step. */
export async function attach<Kept extends DiskRecord>(
  context: JobContext,
  run: TaskRun,
  stored: StoredDisk<Kept>,
  target: Pick<Target, "instanceId" | "vmCid" | "stemcellApiVersion">,
): Promise<void> {
  const { kind } = stored;
  const { vmCid, stemcellApiVersion } = target;
  const { before, disk } = await change(context, stored, (current) => kind.intendAttach(current, target));
  try {
    const request = { vmCid, diskCid: disk.diskCid };
    const { diskHint } = await context.cpi.call("attachDisk", { ...recorded(disk), stemcellApiVersion }, request, run);
    await change(context, stored, (current) => kind.attached(current, (diskHint ?? null) as Json));
  } catch (error) {
    const surelyNot = error instanceof CpiCallError && error.outcome === "not_done" && before.state === "detached";
    if (surelyNot) await change(context, stored, (current) => kind.notAttached(current));
    throw error;
  }
}

/** CPI errors after which a disk is surely not attached to that VM. */
const NOT_ATTACHED = ["DISK_NOT_ATTACHED", "VM_NOT_FOUND", "DISK_NOT_FOUND"] as const;

/** Detaches a disk whose detaching is intended. */
export async function detach<Kept extends DiskRecord>(
  context: JobContext,
  run: TaskRun,
  stored: StoredDisk<Kept>,
  disk: Kept,
  stemcellApiVersion: number,
): Promise<void> {
  const { vmCid, diskCid } = disk;
  const target = { ...recorded(disk), stemcellApiVersion };
  await tolerate(context.cpi.call("detachDisk", target, { vmCid, diskCid }, run), (error) =>
    error.isOf(...NOT_ATTACHED),
  );
  await change(context, stored, (current) => stored.kind.detached(current));
}

/** Returns whether there was one. */
export async function deleteWithCpi(
  context: JobContext,
  run: TaskRun,
  target: CpiTarget,
  diskCid: string,
): Promise<boolean> {
  const call = context.cpi.call("deleteDisk", target, { diskCid }, run);
  return (await tolerate(call, (error) => error.isOf("DISK_NOT_FOUND"))) !== undefined;
}

/** Has the infrastructure remember it, if it can: that is optional in the CPI contract. */
export async function setMetadata(
  context: JobContext,
  run: TaskRun,
  disk: DiskRecord,
  metadata: JsonObject,
): Promise<void> {
  const call = context.cpi.call("setDiskMetadata", recorded(disk), { diskCid: disk.diskCid, metadata }, run);
  await tolerate(call, (error) => error.isNotImplemented);
}

/**
 * Tells an agent to let go of a disk, while its VM can still reach it. One that cannot be told holds nothing back: the CPI
 * takes the disk from the VM whether it let go or not. With `mustLetGo`, one that says it cannot, e.g. because the disk is
 * in use, does. What is no answer of an agent is a fault of ours, and is never passed over.
 */
export async function tellToForget(
  run: TaskRun,
  event: { readonly stage: string; readonly task: string },
  telling: Promise<void>,
  { mustLetGo }: { readonly mustLetGo: boolean },
): Promise<void> {
  try {
    await telling;
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof DomainError)) throw error;
    if (mustLetGo && error instanceof AgentError && !error.isOfUnknownThing) throw error;
    run.event({ ...event, state: "failed", message: `${error.message}; the disk is detached all the same` });
  }
}
