import { AttachState } from "@diskmesh/api/registry";
import { eventually } from "@diskmesh/testkit";
import { DISK_TYPE, WORK_DEPLOYMENT } from "./operations/deployment-names.js";
import { PATIENCE_MS, persistently, runTask, type Soak } from "./soak.js";
import { DEVICE_BYTES, WORK_AZ } from "./soak-fleet.js";

const MIB_BYTES = 1024 * 1024;
/** Number of instances that stay. One host is left for the deployment that is created and deleted repeatedly. */
const WORK_INSTANCES = 2;

/** Adds the devices for disks, and deploys the instances for dynamic disks. */
export async function prepare(soak: Soak): Promise<void> {
  const { clients, workHosts } = soak.fleet;
  for (const hostId of workHosts) await persistently(`AddHost ${hostId}`, () => clients.registry.addHost({ hostId }));
  // Adds devices without an identity, too: drives that can fail are files on FUSE, which have no birth time.
  const unidentified = await clients.registry.listDevices({ attachState: AttachState.UNKNOWN, pageSize: 1_000 });
  for (const { hostId, deviceId } of unidentified.devices)
    if (workHosts.some((each) => each === hostId))
      await persistently(`AddDevice ${deviceId}`, () =>
        clients.registry.addDevice({ hostId, deviceId, acceptUnidentified: true }),
      );
  const all = { attachState: AttachState.ATTACHED, pageSize: 1_000 };
  await eventually(
    async () => {
      const { devices } = await clients.registry.listDevices(all);
      return devices.length > 0 && devices.every(({ dirty }) => !dirty);
    },
    { timeoutMs: PATIENCE_MS },
  );
  const sizes = `disk_types: [{name: ${DISK_TYPE}, disk_size: ${DEVICE_BYTES / MIB_BYTES}}]`;
  const content = `azs: [{name: ${WORK_AZ}}]\n${sizes}\n`;
  await persistently("UpdateConfig", () => clients.configs.updateConfig({ type: "cloud", content }));
  const group = `{name: worker, instances: ${WORK_INSTANCES}, azs: [${WORK_AZ}]}`;
  const manifest = `name: ${WORK_DEPLOYMENT}\ninstance_groups: [${group}]\n`;
  await runTask(soak, "Deploy", () => clients.deployments.deploy({ manifest, wait: true }));
}
