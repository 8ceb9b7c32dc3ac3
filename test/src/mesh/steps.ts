import { setTimeout as sleep } from "node:timers/promises";
import type { Task } from "@diskmesh/api/director";
import { AttachState, type Device } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { DomainError, MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import type { TestMesh } from "./test-mesh.js";

/** Steps of operators and orchestrators. Each is repeated while a part of the mesh is away. */

const PATIENCE_MS = 120_000;
const RETRY_MS = 200;

/** Parts of a mesh that the steps use. */
type Mesh = Pick<TestMesh, "clients" | "hostIds">;

/** Repeats a call that fails with a retryable error. */
export async function retrying<T>(what: string, call: () => Promise<T>): Promise<T> {
  const untilMs = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof DomainError && error.retryable) || performance.now() > untilMs)
        throw new Error(`${what}: ${error instanceof Error ? error.message : error}`, { cause: error });
      await sleep(RETRY_MS);
    }
  }
}

/** Starts a task repeatedly until one succeeds. */
export async function runTask(what: string, start: () => Promise<{ task?: Task | undefined }>): Promise<void> {
  const untilMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const { task } = await retrying(what, start);
    if (task?.state === "TASK_STATE_DONE") return;
    if (performance.now() > untilMs)
      throw new Error(`${what}: task ${task?.taskId} is ${task?.state}: ${task?.result}`);
    await sleep(RETRY_MS);
  }
}

export async function addHosts(mesh: Mesh): Promise<void> {
  for (const hostId of mesh.hostIds) {
    await eventually(async () => {
      const { result } = await retrying(`AddHost ${hostId}`, () => mesh.clients.registry.addHost({ hostId }));
      if (result?.code !== "ACTION_CODE_S_OK" && result?.code !== "ACTION_CODE_S_ALREADY")
        throw new Error(result?.message);
    });
  }
}

async function listDevices(mesh: Mesh): Promise<Device[]> {
  const all = { pageSize: 1_000 };
  const { devices } = await retrying("ListDevices", () => mesh.clients.registry.listDevices(all));
  return devices;
}

/** Waits until every device of the mesh's hosts is ATTACHED and erased. */
export async function devicesReady(mesh: Mesh): Promise<void> {
  await eventually(async () => {
    const waiting = (await listDevices(mesh)).filter(
      ({ hostId, attachState, dirty }) =>
        mesh.hostIds.includes(hostId) && (attachState !== AttachState.ATTACHED || dirty),
    );
    if (waiting.length === 0) return;
    throw new Error(
      waiting.map((one) => `${one.deviceId} ${one.attachState} dirty=${one.dirty} ${one.lastError}`).join("; "),
    );
  });
}

/** Deploys `count` instances, by default one per host. Returns their ids in the order of hosts. */
export async function deployInstances(mesh: Mesh, count = mesh.hostIds.length): Promise<string[]> {
  const content = "azs:\n- name: z1\ndisk_types:\n- name: default\n  disk_size: 1\n";
  await retrying("UpdateConfig", () => mesh.clients.configs.updateConfig({ type: "cloud", content }));
  const manifest = `name: work\ninstance_groups:\n- name: worker\n  instances: ${count}\n  azs: [z1]\n`;
  await runTask("Deploy", () => mesh.clients.deployments.deploy({ manifest, wait: true }));
  const { instances } = await mesh.clients.deployments.listInstances({ deployment: "work" });
  return mesh.hostIds.map((hostId) => instances.find(({ agentId }) => agentId === hostId)?.instanceId ?? "");
}

export async function provideDisk(mesh: Mesh, diskName: string, instanceId: string): Promise<string> {
  const request = {
    diskName,
    instanceId,
    diskPoolName: "default",
    sizeBytes: MIB_BYTES,
    wait: true,
  };
  await runTask(`provide ${diskName}`, () => mesh.clients.disks.provideDynamicDisk(request));
  const { disk } = await retrying("GetDynamicDisk", () => mesh.clients.disks.getDynamicDisk({ diskName }));
  return disk?.diskCid ?? "";
}

export async function detachDisk(mesh: Mesh, diskName: string): Promise<void> {
  await runTask(`detach ${diskName}`, () => mesh.clients.disks.detachDynamicDisk({ diskName, wait: true }));
}

export async function deleteDisk(mesh: Mesh, diskName: string): Promise<void> {
  await runTask(`delete ${diskName}`, () => mesh.clients.disks.deleteDynamicDisk({ diskName, wait: true }));
}

/** Restarts a host's agent with other devices in its config. */
export async function changeDevices(
  mesh: Pick<TestMesh, "process">,
  hostId: string,
  change: (devices: readonly { readonly deviceId: string }[]) => readonly object[],
): Promise<void> {
  const agent = mesh.process(hostId);
  const { devices } = agent.config as { readonly devices: readonly { readonly deviceId: string }[] };
  await agent.restart({ ...agent.config, devices: change(devices) });
}

/** Opens a disk through the link of an instance's programs, and retries until that succeeds. */
export async function openDisk(
  mesh: Pick<TestMesh, "dynamicDisk">,
  hostId: string,
  diskCid: string,
): Promise<NbdClient> {
  const socketPath = mesh.dynamicDisk(hostId, diskCid);
  let client: NbdClient | undefined;
  await eventually(async () => {
    client = await NbdClient.connect({ socketPath });
  });
  if (client === undefined) throw new Error(`${socketPath} did not open`);
  return client;
}
