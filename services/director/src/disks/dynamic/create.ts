import { InvalidStateError } from "@diskmesh/domain";
import { cpisOfStep, recorded } from "../../cpi/cpi-target.js";
import { cpiFacts } from "../../cpi/make-once.js";
import { isTarget } from "../../instances/instance.js";
import { instancesOf, refuseUnlessOpen } from "../../instances/recorded-deployments.js";
import { azNamed, diskTypeNamed } from "../../specs/cloud-config.js";
import { cpiOfAz, sameCpi } from "../../specs/cpi-choice.js";
import type { Disk } from "../../store/disk.js";
import type { Instance } from "../../store/instance.js";
import type { JsonObject } from "../../store/json.js";
import type { DirectorTables } from "../../store/schema.js";
import type { JobOf } from "../../store/task.js";
import type { Planner, Through } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { decideCreate, type WantedDisk } from "./decisions.js";
import { type DiskIntent, intendCreateDisk } from "./disk.js";
import { dynamicDisk } from "./dynamic-disk.js";

type CreateJob = JobOf<"create_dynamic_disk">;

/** Makes a disk and attaches it to nothing. */
export const createDiskOnly: Planner<"create_dynamic_disk", DiskJobContext> = (context, job, tables) => {
  refuseUnlessOpen(tables, job.deployment);
  const az = azNamed(context.configs.cloud.current(tables), job.az);
  return {
    locks: [{ type: "disk", resource: job.diskName }],
    ...cpisOfStep(context, tables, az.cpi),
    run: (run) => create(context, run, job),
  };
};

async function create(context: DiskJobContext, run: TaskRun, job: CreateJob): Promise<string | Through> {
  for (;;) {
    run.checkpoint();
    const { disk, metadata, step, intent, vm } = await context.tablet.read((tables) => {
      const config = context.configs.cloud.current(tables);
      const { diskName, deployment, pool, sizeMib, metadata } = job;
      const az = azNamed(config, job.az);
      const cpis = context.configs.cpi.current(tables);
      const place = { deployment, az: az.name, cpi: cpiOfAz(az, cpis) };
      const disk = tables.disks.get(diskName);
      const row = wantedDisk(context, tables, place, { diskName, made: { pool, sizeMib }, metadata });
      const cloudProperties = disk?.cloudProperties ?? diskTypeNamed(config, pool).cloudProperties;
      const intent = { name: diskName, ...place, pool, sizeMib, cloudProperties };
      const vm = instancesOf(tables, deployment).find(
        (each) => isTarget(each) && each.az === az.name && sameCpi(each.cpi, place.cpi, cpis),
      );
      return { disk, metadata: row.metadata, step: decideCreate(disk, row), intent, vm };
    });
    if (step.do === "nothing") return disk ? madeKnown(step.result, disk) : step.result;
    if (step.do === "create") await createDisk(context, run, intent, await placeOf(context, run, intent, vm));
    else if (step.do === "set_metadata" && disk && metadata) await setDiskMetadata(context, run, disk, metadata);
    else throw new TypeError(`a creation cannot ${step.do}`);
  }
}

/**
 * The CID that tells the CPI where the disk shall be: of an active VM in the az, as BOSH's director gives it. Empty for a
 * fleet, which goes by the az itself: near a VM it would take that VM's host.
 */
async function placeOf(
  context: DiskJobContext,
  run: TaskRun,
  { name, deployment, az, cpi }: Omit<DiskIntent, "token">,
  vm: Instance | undefined,
): Promise<string> {
  const { needsVmSpec } = await cpiFacts(context, run, { cpi, az, azCpi: cpi });
  if (!needsVmSpec) return "";
  if (vm !== undefined) return vm.vmCid;
  throw new InvalidStateError(
    `no active VM found in deployment \`${deployment}\` in AZ \`${az}\`, whose place disk \`${name}\` would get: start an instance there first`,
    { about: { disk_name: name, deployment, az } },
  );
}

/** The end of a task that made a disk, or found it made: its clients read the CID, as BOSH's director writes it. */
export function madeKnown(result: string, { diskCid }: Disk): Through {
  return { result, output: JSON.stringify({ disk_cid: diskCid }), record: () => {} };
}

/** Makes the disk, near the VM if one is given. */
export async function createDisk(
  context: DiskJobContext,
  run: TaskRun,
  intent: Omit<DiskIntent, "token">,
  vmCid: string,
): Promise<void> {
  const { name } = intent;
  await run.stage("Creating disk", name, async () => {
    const { disk, begunBefore } = await context.tablet.transact((tx) => {
      const existing = tx.disks.get(name);
      if (existing === undefined) refuseUnlessOpen(tx, intent.deployment);
      const intended = intendCreateDisk(existing, { ...intent, token: context.newId() });
      tx.disks.put(intended);
      return { disk: intended, begunBefore: existing !== undefined };
    });
    const { cpi, az, token } = disk;
    // The CPI of the VM makes it, which may be the default one, whichever CPI the az has got since.
    const target = vmCid === "" ? { cpi, az, azCpi: cpi } : recorded(disk);
    const cloudProperties = { ...disk.cloudProperties, name };
    const making = { token, madeFor: `dynamic disk ${name}`, begunBefore, target, cloudProperties, vmCid };
    await dynamicDisk(context, run, name).make(disk, making);
  });
}

/** A caller's request for a disk. */
export interface DiskWish extends Pick<WantedDisk, "made"> {
  readonly diskName: string;
  readonly metadata: JsonObject | null;
}

export function wantedDisk(
  context: DiskJobContext,
  tables: DirectorTables,
  { deployment, az, cpi }: Pick<WantedDisk, "deployment" | "az" | "cpi">,
  { diskName: name, made, metadata: given }: DiskWish,
): WantedDisk {
  const cpis = context.configs.cpi.current(tables);
  const metadata = given ?? undefined;
  return { name, deployment, az, cpi, sameCpi: (other) => sameCpi(cpi, other, cpis), made, metadata };
}

/** The infrastructure is told the director and the deployment, too, which win as in BOSH; only the caller's are recorded. */
export async function setDiskMetadata(
  context: DiskJobContext,
  run: TaskRun,
  disk: Disk,
  metadata: JsonObject,
): Promise<void> {
  const steps = dynamicDisk(context, run, disk.name);
  await run.stage("Setting disk metadata", disk.name, async () => {
    const { deployment } = disk;
    await steps.setMetadata(disk, { ...metadata, director: context.config.name, deployment });
    await steps.change((current) => ({ ...current, metadata }));
  });
}
