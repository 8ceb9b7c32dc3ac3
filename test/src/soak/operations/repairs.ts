import { setTimeout as delay } from "node:timers/promises";
import { ActionCode } from "@diskmesh/api/registry";
import { type Operation, PATIENCE_MS, persistently, type Soak } from "../soak.js";

const ROUND_MS = 2_000;
const RETRY_MS = 300;

/** With a disk on it: by then the fault is over, or the next round is as good. */
const RESTART_AFTER_MS = 15_000;

/**
 * What operators do for drives that failed and were seen to, as an error of the hardware stays until then: a device
 * without a disk is removed and added again; for one with a disk the agent is started again.
 */
export const repairs: Operation = {
  name: "repair of failed devices",
  workers: 1,
  async run(soak) {
    await repairDevices(soak);
    await delay(ROUND_MS);
  },
};

/** Since when a host has had devices with disks on them in error. */
const failedSinceMs = new Map<string, number>();

/** Those that can be repaired now. */
export async function repairDevices(soak: Soak): Promise<void> {
  const { clients, workHosts } = soak.mesh;
  const all = { pageSize: 1_000 };
  for (const hostId of workHosts) {
    const list = () => clients.registry.listDevices({ hostId, ...all });
    const { devices } = await persistently("ListDevices", list);
    const failed = devices.filter(({ health }) => health === "HEALTH_ERROR");
    for (const { deviceId, diskId } of failed) if (diskId === "") await renew(soak, { hostId, deviceId });
    const waiting = failed.filter(({ diskId }) => diskId !== "").map(({ deviceId }) => deviceId);
    if (areOverdue(hostId, waiting)) (await soak.mesh.supervised.get(hostId)?.kill())?.();
  }
}

function areOverdue(hostId: string, deviceIds: readonly string[]): boolean {
  const nowMs = performance.now();
  const sinceMs = failedSinceMs.get(hostId) ?? nowMs;
  const isOverdue = deviceIds.length > 0 && nowMs - sinceMs > RESTART_AFTER_MS;
  if (deviceIds.length === 0 || isOverdue) failedSinceMs.delete(hostId);
  else failedSinceMs.set(hostId, sinceMs);
  return isOverdue;
}

type Name = Parameters<Soak["mesh"]["clients"]["registry"]["addDevice"]>[0];

/** What is in error cannot be erased before it leaves; it is when it is back. */
async function renew({ mesh }: Soak, name: Name): Promise<void> {
  const { registry } = mesh.clients;
  for (const untilMs = performance.now() + PATIENCE_MS; ; ) {
    const { result } = await persistently(`RemoveDevice ${name.deviceId}`, () =>
      registry.removeDevice({ ...name, keepData: true }),
    );
    if (result?.code === ActionCode.S_OK) break;
    // A disk was quicker: some other time.
    if (result?.code !== ActionCode.E_TRY_AGAIN || result.dependentDiskIds.length > 0) break;
    if (performance.now() > untilMs)
      throw new Error(`RemoveDevice ${name.deviceId} is not done for ${PATIENCE_MS} ms: ${result.message}`);
    await delay(RETRY_MS);
  }
  await persistently(`AddDevice ${name.deviceId}`, () => registry.addDevice(name));
}
