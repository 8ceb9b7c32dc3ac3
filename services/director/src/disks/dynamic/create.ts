import { randomUUID } from "node:crypto";
import { DISK_NAME_LABEL, InvalidStateError, NotImplementedError } from "@diskmesh/domain";
import { cpisOfStep, recorded } from "../../cpi/cpi-target.js";
import { cpiFacts } from "../../cpi/make-once.js";
import { isTarget } from "../../instances/instance.js";
import { instancesOf, refuseUnlessOpen } from "../../instances/recorded-deployments.js";
import { diskIn, isNameTaken } from "../../instances/scope.js";
import { azNamed, diskTypeNamed } from "../../specs/cloud-config.js";
import { cpiOfAz, sameCpi } from "../../specs/cpi-choice.js";
import type { Disk } from "../../store/disk.js";
import type { Instance } from "../../store/instance.js";
import type { JsonObject } from "../../store/json.js";
import type { DirectorTables } from "../../store/schema.js";
import type { Scope } from "../../store/scope.js";
import type { JobOf } from "../../store/task.js";
import type { Planner, Through } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { decideCreate, nameTaken, type WantedDisk } from "./decisions.js";
import { type DiskIntent, intendCreateDisk, pathOf } from "./disk.js";
import { dynamicDisk, failingStep } from "./dynamic-disk.js";

type CreateJob = JobOf<"create_dynamic_disk">;

/** Creates a disk without attaching it. */
export const createDiskOnly: Planner<"create_dynamic_disk", DiskJobContext> = (context, job, tables) => {
  refuseUnlessOpen(tables, job.deployment, job.scope);
  const az = azNamed(context.configs.cloud.current(tables), job.az);
  const cpis = cpisOfStep(context, tables, az.cpi);
  if (isNameTaken(job.scope, tables, job.diskName)) return failingStep(cpis, nameTaken(job.diskName));
  return {
    locks: [{ type: "disk", resource: job.diskName }],
    ...cpis,
    run: (run) => create(context, run, job),
  };
};

async function create(context: DiskJobContext, run: TaskRun, job: CreateJob): Promise<string | Through> {
  for (;;) {
    run.checkpoint();
    const { disk, metadata, step, intent, vm } = await context.tablet.read((tables) => decide(context, tables, job));
    if (step.do === "nothing") return disk ? madeKnown(step.result, disk) : step.result;
    if (step.do === "create") await createDisk(context, run, intent, await placeOf(context, run, intent, vm, job));
    else if (step.do === "set_metadata" && disk && metadata) await setDiskMetadata(context, run, disk, metadata);
    else throw new TypeError(`the plan of a disk creation has the unexpected step ${step.do}`);
  }
}

function decide(context: DiskJobContext, tables: DirectorTables, job: CreateJob) {
  const config = context.configs.cloud.current(tables);
  const { diskName, deployment, pool, sizeMib, metadata, onHostSilence, scope } = job;
  const az = azNamed(config, job.az);
  const cpis = context.configs.cpi.current(tables);
  const place = { deployment, az: az.name, cpi: cpiOfAz(az, cpis) };
  const disk = diskIn(scope, tables, diskName);
  const wish = { diskName, made: { pool, sizeMib, onHostSilence }, metadata, scope };
  const row = wantedDisk(context, tables, place, wish);
  const asked = onHostSilence && { on_host_silence: onHostSilence };
  const cloudProperties = disk?.cloudProperties ?? { ...diskTypeNamed(config, pool).cloudProperties, ...asked };
  const intent = { name: diskName, ...place, pool, sizeMib, cloudProperties, scope };
  const vm = instancesOf(tables, deployment).find(
    (each) => isTarget(each) && each.az === az.name && sameCpi(each.cpi, place.cpi, cpis),
  );
  return { disk, metadata: row.metadata, step: decideCreate(disk, row), intent, vm };
}

/**
 * Returns the CID that tells the CPI where to create the disk: an active VM in the az, as in BOSH. Returns "" for a
 * fleet, which uses the az, because a VM would bind the disk to the VM's host.
 */
async function placeOf(
  context: DiskJobContext,
  run: TaskRun,
  { name, deployment, az, cpi }: Omit<DiskIntent, "token" | "incarnation" | "createdAtMs">,
  vm: Instance | undefined,
  { onHostSilence }: CreateJob,
): Promise<string> {
  const { needsVmSpec } = await cpiFacts(context, run, { cpi, az, azCpi: cpi });
  if (!needsVmSpec) return "";
  if (onHostSilence === "fence")
    throw new NotImplementedError(
      `disk \`${name}\` was not created: its CPI cannot fence a disk of a silent host, only the fleet CPI can; leave out on_host_silence`,
      { about: { disk_name: name } },
    );
  if (vm !== undefined) return vm.vmCid;
  throw new InvalidStateError(
    `no active VM found in deployment \`${deployment}\` in AZ \`${az}\` that disk \`${name}\` could be placed with: start an instance there first`,
    { about: { disk_name: name, deployment, az } },
  );
}

/**
 * Returns the result of a task that created or found a disk. Clients read the CID from the output, in the format of
 * BOSH's director, and the path of a disk on a host.
 */
export function madeKnown(result: string, disk: Disk): Through {
  const path = disk.hostId === undefined ? {} : { path: pathOf(disk) };
  return { result, output: JSON.stringify({ disk_cid: disk.diskCid, ...path }), record: () => {} };
}

/** Creates the disk, near the VM unless `vmCid` is empty. */
export async function createDisk(
  context: DiskJobContext,
  run: TaskRun,
  intent: Omit<DiskIntent, "token" | "incarnation" | "createdAtMs">,
  vmCid: string,
): Promise<void> {
  const { name } = intent;
  const { incarnation } = context.tablet;
  const createdAtMs = context.clock.nowMs();
  await run.stage("Creating disk", name, async () => {
    const { disk, begunBefore } = await context.tablet.transact((tx) => {
      const existing = tx.disks.get(name);
      if (existing === undefined && intent.deployment !== "") refuseUnlessOpen(tx, intent.deployment);
      const intended = intendCreateDisk(existing, { ...intent, token: randomUUID(), incarnation, createdAtMs });
      tx.disks.put(intended);
      return { disk: intended, begunBefore: existing !== undefined };
    });
    const { cpi, az, token } = disk;
    // The CPI recorded for the VM creates the disk: possibly the default CPI, even if the az has another CPI by now.
    const target = vmCid === "" ? { cpi, az, azCpi: cpi } : recorded(disk);
    const cloudProperties = { ...disk.cloudProperties, name };
    const making = { token, madeFor: `dynamic disk ${name}`, begunBefore, target, cloudProperties, vmCid };
    await dynamicDisk(context, run, name).make(disk, making);
  });
}

export interface DiskWish extends Pick<WantedDisk, "made"> {
  readonly diskName: string;
  readonly metadata: JsonObject | null;
  readonly scope?: Scope | undefined;
}

export function wantedDisk(
  context: DiskJobContext,
  tables: DirectorTables,
  { deployment, az, cpi }: Pick<WantedDisk, "deployment" | "az" | "cpi">,
  { diskName: name, made, metadata: given, scope }: DiskWish,
): WantedDisk {
  const cpis = context.configs.cpi.current(tables);
  const metadata = given ?? undefined;
  const isTaken = isNameTaken(scope, tables, name);
  const isSameCpi = (other: string) => sameCpi(cpi, other, cpis);
  return { name, deployment, az, cpi, sameCpi: isSameCpi, made, isNameTaken: isTaken, metadata };
}

/**
 * Sets the disk's metadata. The infrastructure also gets the director, the deployment and the disk's name, which override
 * the caller's values as in BOSH. Only the caller's metadata is recorded.
 */
export async function setDiskMetadata(
  context: DiskJobContext,
  run: TaskRun,
  disk: Disk,
  metadata: JsonObject,
): Promise<void> {
  const steps = dynamicDisk(context, run, disk.name);
  await run.stage("Setting disk metadata", disk.name, async () => {
    const { deployment } = disk;
    const owner: JsonObject = deployment === "" ? {} : { deployment };
    await steps.setMetadata(disk, {
      ...metadata,
      director: context.config.name,
      ...owner,
      [DISK_NAME_LABEL]: disk.name,
    });
    await steps.change((current) => ({ ...current, metadata }));
  });
}
