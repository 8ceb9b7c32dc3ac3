import { DomainError } from "@diskmesh/domain";
import { tolerate } from "../cpi/cpi-error.js";
import { type Disk, type DiskIntent, dynamicDisks, intendCreateDisk } from "../model/disk.js";
import { decideDelete } from "../model/disk-decisions.js";
import type { Target } from "../model/instance.js";
import type { JsonObject } from "../model/json.js";
import { refuseUnlessOpen } from "../model/recorded-deployments.js";
import type { TaskRun } from "../workers/task-run.js";
import { tellAgent } from "./agent-steps.js";
import { recorded } from "./cpi-target.js";
import { attach, change, deleteWithCpi, detach, dynamicDisk, make, setMetadata, tellToForget } from "./disk-steps.js";
import type { JobContext } from "./job-context.js";

/** Steps on one dynamic disk. All need its lock, and the lock of the instance it is or will be attached to. */

/** Makes the disk, near the VM if one is given. */
export async function createDisk(
  context: JobContext,
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
    // Near a VM it is the VM's CPI that makes it, which may be the default one whatever the az says since.
    const target = vmCid === "" ? { cpi, az, azCpi: cpi } : recorded(disk);
    const cloudProperties = { ...disk.cloudProperties, name };
    const making = { token, madeFor: `dynamic disk ${name}`, begunBefore, target, cloudProperties, vmCid };
    await make(context, run, dynamicDisk(name), disk, making);
  });
}

export async function attachDisk(context: JobContext, run: TaskRun, name: string, target: Target): Promise<void> {
  await run.stage("Attaching disk", `${name} to ${target.vmCid}`, () =>
    attach(context, run, dynamicDisk(name), target),
  );
}

/** What the infrastructure shall remember: the caller's names and values, and ours, which win as in BOSH. */
export function metadataFor(context: JobContext, deployment: string, given: JsonObject | null): JsonObject | undefined {
  return given === null ? undefined : { ...given, director: context.config.name, deployment };
}

export async function setDiskMetadata(
  context: JobContext,
  run: TaskRun,
  disk: Disk,
  metadata: JsonObject,
): Promise<void> {
  await run.stage("Setting disk metadata", disk.name, async () => {
    await setMetadata(context, run, disk, metadata);
    await change(context, dynamicDisk(disk.name), (current) => ({ ...current, metadata }));
  });
}

/** Tells the VM's agent where the disk is. */
export async function tellAgentOfDisk(context: JobContext, run: TaskRun, disk: Disk, agentId: string): Promise<void> {
  // Without a hint there is nothing an agent could look for.
  if (disk.hint === null) return;
  const { attachTimeoutMs } = context.config.agents;
  await run.stage("Telling agent", `${agentId} of ${disk.name}`, async () => {
    try {
      await tellAgent(context, run, agentId, "add_dynamic_disk", [disk.diskCid, disk.hint], attachTimeoutMs);
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      throw new AgentNotToldError(
        `disk \`${disk.name}\` is attached to \`${disk.vmCid}\`, but the vm's agent was not told: ${error.message}; ask for the disk again`,
        { cause: error, about: { disk_name: disk.name, agent_id: agentId } },
      );
    }
  });
}

class AgentNotToldError extends DomainError {
  override readonly reason = "AGENT_NOT_TOLD";
  override readonly outcome = "unknown" as const;
}

/** Detaches the disk from wherever it is. An agent that does not answer delays that for a bounded time only. */
export async function detachDisk(context: JobContext, run: TaskRun, name: string): Promise<void> {
  const stored = dynamicDisk(name);
  const { disk } = await change(context, stored, (current) => dynamicDisks.intendDetach(current));
  const instance = await context.tablet.read((tables) => tables.instances.get(disk.instanceId));
  const { agentId = "", stemcellApiVersion = 0 } = instance ?? {};
  if (agentId !== "") await tellAgentToForget(context, run, disk, agentId);
  await run.stage("Detaching disk", `${name} from ${disk.vmCid}`, () =>
    detach(context, run, stored, disk, stemcellApiVersion),
  );
}

async function tellAgentToForget(context: JobContext, run: TaskRun, disk: Disk, agentId: string): Promise<void> {
  const event = { stage: "Telling agent", task: `${agentId} to forget ${disk.name}` };
  const { detachTimeoutMs } = context.config.agents;
  run.checkpoint();
  run.event({ ...event, state: "started", message: "" });
  const telling = tellAgent(context, run, agentId, "remove_dynamic_disk", [disk.diskCid], detachTimeoutMs).then(() =>
    run.event({ ...event, state: "finished", message: "" }),
  );
  await tellToForget(run, event, telling, { mustLetGo: false });
}

/** Deletes the disk and its record. */
async function deleteDisk(context: JobContext, run: TaskRun, name: string): Promise<void> {
  await run.stage("Deleting disk", name, async () => {
    const { disk } = await change(context, dynamicDisk(name), (current) =>
      dynamicDisks.moved(current, "intend_delete"),
    );
    await deleteWithCpi(context, run, recorded(disk), disk.diskCid);
    await context.tablet.transact((tx) => tx.disks.delete(name));
  });
}

/** Deletes a disk that is attached to nothing, if there is one. */
export async function deleteIfThere(context: JobContext, run: TaskRun, diskName: string): Promise<string> {
  let deletedCid = "";
  for (;;) {
    run.checkpoint();
    const { disk, step } = await context.tablet.read((tables) => {
      const disk = tables.disks.get(diskName);
      return { disk, step: decideDelete(disk, diskName, { deletedCid }) };
    });
    if (step.do === "nothing") return step.result;
    if (disk === undefined) throw new TypeError(`a disk that is not there cannot ${step.do}`);
    if (step.do === "create") {
      // Refused: it surely is not there, and its record is gone.
      await tolerate(createDisk(context, run, disk, ""), (error) => error.refused);
    } else {
      await deleteDisk(context, run, diskName);
      deletedCid = disk.diskCid;
    }
  }
}
