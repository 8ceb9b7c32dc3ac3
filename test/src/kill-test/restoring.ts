import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { AttachState, UnknownDiskVerdict } from "@diskmesh/api/registry";
import { messageOf, NotFoundError } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import type { TestMesh } from "../mesh/test-mesh.js";
import { ended } from "../mesh/typed-lines.js";
import { repositoryFolder } from "../repository-folder.js";
import type { Account, DeviceAccount, Told } from "./account.js";
import { type Calls, PATIENCE_MS, persistently } from "./callers.js";
import type { DiskUser } from "./disks.js";
import type { KilledRegistry } from "./kill.js";
import type { Truce } from "./truce.js";

const PATIENCE = { timeoutMs: PATIENCE_MS, everyMs: 100 };

export interface Restoring {
  readonly mesh: TestMesh;
  readonly registries: readonly KilledRegistry[];
  readonly account: Account;
  readonly calls: Calls;
  readonly disks: DiskUser;
  /** Truce of the killers and of the callers that add and remove; held while operators work. */
  readonly killers: Truce;
  readonly callers: Truce;
}

/** Creates a backup while callers continue, so that some of their calls are in progress. Resolves with the file. */
export function backUp({ mesh, registries, account, disks, killers }: Restoring): Promise<string> {
  const file = join(mesh.folder, "registry.backup");
  return killers.hold(async () => {
    await Promise.all(registries.map((registry) => registry.comeUp()));
    await eventually(async () => {
      const [mark, diskMark] = [account.mark(), disks.mark()];
      await ended(mesh, `backup registry ${file}`, 0);
      account.backedUp(mark);
      disks.backedUp(diskMark);
      // Repeats the backup when calls about all devices were in progress during it.
      return account.sinceBackup.settled > 0;
    }, PATIENCE);
    return file;
  });
}

/**
 * Stops the registries, restores the backup, starts them, and compares all states with the answers at the backup.
 * Agents stay up. Resolves with the number of devices that were settled at the backup.
 */
export function restore(restoring: Restoring, file: string): Promise<number> {
  const { mesh, registries, account, disks, killers, callers } = restoring;
  return callers.hold(() =>
    killers.hold(async () => {
      await Promise.all(registries.map((registry) => registry.stop()));
      const config = join(mesh.folder, "disk-registry-1.yaml");
      // On a busy machine the lease may not have been handed over, and the restore waits until it has ended.
      await eventually(
        () =>
          run("services/disk-registry/dist/restore.js", [
            "--config",
            config,
            "--from",
            file,
            "--replace",
            "--discard-most",
          ]),
        PATIENCE,
      );
      const told = account.restored();
      await Promise.all(registries.map((registry) => registry.restart()));
      for (const hostId of mesh.hostIds) await decideUnknown(restoring, hostId);
      await Promise.all(Array.from(told, ([device, then]) => compareRestored(restoring, device, then)));
      for (const device of account.devices) device.leftUnerased = await isLeftUnerased(restoring, device);
      await disks.lookAfterRestore();
      return told.size;
    }),
  );
}

/**
 * Decides as an operator who discards everything from after the backup: disks of the backup lose devices that other
 * disks got later, these devices are erased, and devices that were added later are removed.
 */
async function decideUnknown({ mesh, calls }: Restoring, hostId: string): Promise<void> {
  // The devices are marked once their agent has registered again.
  await eventually(async () => {
    const { host } = await persistently(calls, () => mesh.clients.registry.getHost({ hostId }));
    if (host !== undefined && host.lastHeartbeatTime === undefined)
      throw new Error(`host ${hostId} was not heard since the restore`);
  }, PATIENCE);
  const decided = { hostId };
  for (const verdict of [UnknownDiskVerdict.AGENT, UnknownDiskVerdict.REGISTRY])
    await persistently(calls, () => mesh.clients.fleet.decideUnknownDisks({ verdict, ...decided }));
}

async function compareRestored(
  { mesh, account, calls }: Restoring,
  device: DeviceAccount,
  { told }: Pick<DeviceAccount, "told">,
): Promise<void> {
  const { deviceId } = device;
  try {
    await eventually(() => isAsRestored(mesh, device, told), PATIENCE);
    account.compare(device, await persistently(calls, () => mesh.device(deviceId)), told);
    device.told = told;
  } catch (error) {
    // The registry need not know a device that was never added.
    if (error instanceof NotFoundError && told === "out") return;
    account.violated(`${deviceId}: told "${told}" before the backup; after its restore: ${messageOf(error)}`);
  }
}

/** Returns whether the device is out of operation and was not erased, because no agent held it. */
async function isLeftUnerased({ mesh, calls }: Restoring, { deviceId }: DeviceAccount): Promise<boolean> {
  try {
    const { attachState, dirty } = await persistently(calls, () => mesh.device(deviceId));
    return dirty && attachState !== AttachState.ATTACHING && attachState !== AttachState.ATTACHED;
  } catch (error) {
    if (error instanceof NotFoundError) return false;
    throw error;
  }
}

/**
 * Requires that the device has its restored state. The agent follows the registry's state once it has registered again.
 */
async function isAsRestored(mesh: TestMesh, { hostId, deviceId }: DeviceAccount, told: Told): Promise<void> {
  const { attachState, detachConfirmed, lastError } = await mesh.device(deviceId).catch((error) => {
    if (error instanceof NotFoundError && told === "out")
      return { attachState: AttachState.UNKNOWN, detachConfirmed: true, lastError: "" };
    throw error;
  });
  const { devices } = await mesh.agentClient(hostId).listDevices({});
  const isHeld = devices.find((one) => one.deviceId === deviceId)?.attached;
  const isRight = {
    in: attachState === AttachState.ATTACHED && isHeld === true,
    out: isHeld === false && (attachState === AttachState.UNKNOWN || detachConfirmed),
    // The removal continues, or waits for another call.
    leaving: true,
    unsettled: true,
  };
  if (isRight[told]) return;
  const state = `it is ${attachState}, confirmed: ${detachConfirmed} (${lastError})`;
  throw new Error(`${state}, and its agent holds it: ${isHeld}`);
}

/** Runs a command as `npm run` does. */
async function run(file: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(process.execPath, [join(repositoryFolder, file), ...args]);
}
