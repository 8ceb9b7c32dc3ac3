import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { TestMesh } from "../mesh/test-mesh.js";
import { bareCommitRate } from "./floors.js";
import { drainRatePerSecond, type Measurement, measurement } from "./measure.js";

const HOSTS = 16;
const DEVICES_PER_HOST = 2;
const PAIRS_ALONE = 40;
const PAIRS_TOGETHER = 160;

/**
 * The least that must be durable, one after the other, for a pair: a task's intent, its start, the disk's intent, the
 * registry's intent, the session on the device, the publication, and the end of the task, for each of the two.
 */
const DURABLE_STEPS_PER_PAIR = 14;

/** The whole mesh: provide a disk to a VM and detach it again. */
export async function benchMesh(report: (line: string) => void): Promise<Measurement[]> {
  report(`a mesh of ${HOSTS} hosts`);
  await using mesh = await TestMesh.start({
    hosts: HOSTS,
    devicesPerHost: DEVICES_PER_HOST,
    deviceSizeBytes: MIB_BYTES,
  });
  const instanceIds = await deploy(mesh);
  const commitRate = await bareCommitRate(join(mesh.group.folder, "bare"));
  const provideAndDetach = async (index: number, concurrency: number) => {
    const slot = index % concurrency;
    const diskName = `bench-${slot}`;
    const provide = {
      diskName,
      instanceId: instanceIds[slot] ?? "",
      diskPoolName: "default",
      sizeBytes: MIB_BYTES,
      wait: true,
    };
    const { task: provided } = await mesh.clients.disks.provideDisk(provide);
    if (provided?.state !== "TASK_STATE_DONE") throw new Error(`provide of ${diskName}: ${provided?.result}`);
    const { task: detached } = await mesh.clients.disks.detachDisk({ diskName, wait: true });
    if (detached?.state !== "TASK_STATE_DONE") throw new Error(`detach of ${diskName}: ${detached?.result}`);
  };
  const results: Measurement[] = [];
  for (const [concurrency, count] of [
    [1, PAIRS_ALONE],
    [HOSTS, PAIRS_TOGETHER],
  ] as const) {
    report(`provide and detach, ${concurrency} at a time`);
    // The first round makes the disks.
    for (let slot = 0; slot < concurrency; slot++) await provideAndDetach(slot, concurrency);
    // Each caller has its own disk and instance: they never wait for each other's locks.
    const perCaller = count / concurrency;
    const value = await drainRatePerSecond({ concurrency, count: concurrency }, async (slot) => {
      for (let pair = 0; pair < perCaller; pair++) await provideAndDetach(slot, concurrency);
    });
    results.push(
      measurement({
        name: `provide_detach_pairs_concurrency_${concurrency}`,
        value: value * perCaller,
        unit: "pairs/s",
        floor: (concurrency * commitRate) / DURABLE_STEPS_PER_PAIR,
        floorOf: `${concurrency} x bare commit ${commitRate.toFixed(0)}/s / ${DURABLE_STEPS_PER_PAIR} durable steps`,
        budget: undefined,
      }),
    );
  }
  return results;
}

async function deploy(mesh: TestMesh): Promise<string[]> {
  const { registry, configs, deployments } = mesh.clients;
  for (const hostId of mesh.hostIds) await registry.addHost({ hostId });
  await eventually(
    async () => {
      const { devices } = await registry.listDevices({
        attachState: "ATTACH_STATE_ATTACHED",
        pageSize: 1000,
      });
      const clean = devices.filter((device) => !device.dirty).length;
      if (clean < HOSTS * DEVICES_PER_HOST) throw new Error(`${clean} devices are ready`);
    },
    { timeoutMs: 60_000 },
  );
  const content = "azs:\n- name: z1\ndisk_types:\n- name: default\n  disk_size: 1\n";
  await configs.updateConfig({ type: "cloud", content });
  const manifest = `name: bench\ninstance_groups:\n- name: worker\n  instances: ${HOSTS}\n  azs: [z1]\n`;
  const { task } = await deployments.deploy({ manifest, wait: true });
  if (task?.state !== "TASK_STATE_DONE") throw new Error(`deploy: ${task?.result}`);
  const { instances } = await deployments.listInstances({ deployment: "bench" });
  return instances.map((instance) => instance.instanceId);
}
