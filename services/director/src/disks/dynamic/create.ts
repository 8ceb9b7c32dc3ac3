import { randomUUID } from "node:crypto";
import { DISK_NAME_LABEL, InvalidStateError, NotImplementedError } from "@diskmesh/domain";
import { cpisOfStep, recorded } from "../../cpi/cpi-target.js";
import { cpiFacts } from "../../cpi/make-once.js";
import { instanceNamed, isTarget, type Target } from "../../instances/instance.js";
import { instancesOf, refuseUnlessOpen } from "../../instances/recorded-deployments.js";
import { coversHost, diskIn, isNameTaken } from "../../instances/scope.js";
import { type Az, azNamed, azOfHosts, diskTypeNamed } from "../../specs/cloud-config.js";
import { cpiOfAz, sameCpi } from "../../specs/cpi-choice.js";
import type { Disk } from "../../store/disk.js";
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
import { cpisToAsk, findHost, hostNotFound } from "./hosts.js";

type CreateJob = JobOf<"create_dynamic_disk">;

/** Creates a disk without attaching it. */
export const createDiskOnly: Planner<"create_dynamic_disk", DiskJobContext> = (context, job, tables) => {
  const { deployment, diskName, instanceId, hostId, scope } = job;
  if (deployment !== "") refuseUnlessOpen(tables, deployment, scope);
  if (instanceId !== undefined)
    instanceNamed(
      instanceId,
      instancesOf(tables, deployment).find((each) => each.instanceId === instanceId),
    );
  const cpis =
    hostId === undefined
      ? cpisOfStep(context, tables, azOf(context, tables, job).cpi)
      : { cpis: cpisToAsk(context, tables, job.hostCpi) };
  if (isNameTaken(scope, tables, diskName)) return failingStep(cpis, nameTaken(diskName));
  if (hostId !== undefined && !coversHost(scope, tables, hostId)) return failingStep(cpis, hostNotFound(hostId));
  return {
    locks: [{ type: "disk", resource: diskName }],
    ...cpis,
    run: (run) => create(context, run, job),
  };
};

function azOf(context: DiskJobContext, tables: DirectorTables, { deployment, az }: CreateJob): Az {
  const config = context.configs.cloud.current(tables);
  return deployment === "" ? azOfHosts(config, az) : azNamed(config, az);
}

async function create(context: DiskJobContext, run: TaskRun, job: CreateJob): Promise<string | Through> {
  const { hostId, hostCpi } = job;
  // Needs no lock of the host, because the disk is only placed near it.
  const host = hostId === undefined ? undefined : await findHost(context, run, hostId, hostCpi);
  for (;;) {
    run.checkpoint();
    const decided = await context.tablet.read((tables) => decide(context, tables, job, host));
    const { disk, metadata, step, intent, vms } = decided;
    if (step.do === "nothing") return disk ? madeKnown(step.result, disk) : step.result;
    if (step.do === "create") await createDisk(context, run, intent, await placeOf(context, run, intent, vms, job));
    else if (step.do === "set_metadata" && disk && metadata) await setDiskMetadata(context, run, disk, metadata);
    else throw new TypeError(`the plan of a disk creation has the unexpected step ${step.do}`);
  }
}

function decide(context: DiskJobContext, tables: DirectorTables, job: CreateJob, host: Target | undefined) {
  const { diskName, deployment, instanceId, pool, sizeMib, metadata, onHostSilence, scope } = job;
  const cpis = context.configs.cpi.current(tables);
  const disk = diskIn(scope, tables, diskName);
  const place = host ?? placeInAz(context, tables, job, disk);
  const wish = { diskName, made: { pool, sizeMib, onHostSilence }, metadata, scope };
  const row = wantedDisk(context, tables, place, wish);
  const asked = onHostSilence && { on_host_silence: onHostSilence };
  const cloudProperties = disk?.cloudProperties ?? { ...propertiesOf(context, tables, job), ...asked };
  const { az, cpi } = place;
  const intent = { name: diskName, deployment, az, cpi, pool, sizeMib, cloudProperties, scope };
  const vms = instancesOf(tables, deployment).filter(
    (each) => isTarget(each) && each.az === az && sameCpi(each.cpi, cpi, cpis),
  );
  const user = host ?? vms.find((each) => each.instanceId === instanceId);
  return { disk, metadata: row.metadata, step: decideCreate(disk, row), intent, vms: { user, any: vms[0] } };
}

/** Returns the place of a disk without a host. A disk for hosts may be of another CPI than its az, namely of its host's. */
function placeInAz(context: DiskJobContext, tables: DirectorTables, job: CreateJob, disk: Disk | undefined) {
  const { deployment } = job;
  const az = azOf(context, tables, job);
  const isOfHosts = deployment === "" && disk?.deployment === "";
  return { deployment, az: az.name, cpi: isOfHosts ? disk.cpi : cpiOfAz(az, context.configs.cpi.current(tables)) };
}

function propertiesOf(context: DiskJobContext, tables: DirectorTables, job: CreateJob): JsonObject {
  const { deployment, pool, exportKind } = job;
  if (deployment === "") return { pool, ...(exportKind && { export: exportKind }) };
  return diskTypeNamed(context.configs.cloud.current(tables), pool).cloudProperties;
}

/** VMs or hosts near which a CPI may place a disk. */
interface Neighbours {
  /** The host, or the instance's VM, that will use the disk. */
  readonly user: Pick<Target, "vmCid"> | undefined;
  readonly any: Pick<Target, "vmCid"> | undefined;
}

/**
 * Returns the CID that tells the CPI where to create the disk: that of the disk's user, or of an active VM in the az, as in
 * BOSH. Returns "" for a fleet without a user, which uses the az.
 */
async function placeOf(
  context: DiskJobContext,
  run: TaskRun,
  { name, deployment, az, cpi }: Omit<DiskIntent, "token" | "incarnation" | "createdAtMs">,
  { user, any }: Neighbours,
  { hostId, onHostSilence }: CreateJob,
): Promise<string> {
  if (hostId !== undefined && user !== undefined) return user.vmCid;
  const { needsVmSpec } = await cpiFacts(context, run, { cpi, az, azCpi: cpi });
  if (!needsVmSpec) return user?.vmCid ?? "";
  if (onHostSilence === "fence")
    throw new NotImplementedError(
      `disk \`${name}\` was not created: its CPI cannot fence a disk of a silent host, only the fleet CPI can; leave out on_host_silence`,
      { about: { disk_name: name } },
    );
  const vm = user ?? any;
  if (vm !== undefined) return vm.vmCid;
  if (deployment === "")
    throw new NotImplementedError(
      `disk \`${name}\` was not created: only the fleet CPI has hosts; name a deployment with a VM in AZ \`${az}\``,
      { about: { disk_name: name, az } },
    );
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
