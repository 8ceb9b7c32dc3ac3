import { AttachState, HostState } from "@diskmesh/api/registry";
import { eventually } from "@diskmesh/testkit";
import { openFiles } from "../mesh/device-files.js";
import type { TestMesh } from "../mesh/test-mesh.js";
import type { Account } from "./account.js";
import { type HostCaller, PATIENCE_MS } from "./callers.js";

const LOOK_EVERY_MS = 10;

/** Checks continuously which files the agents hold open. */
export function watchDescriptors(
  mesh: TestMesh,
  account: Account,
  hostIds: readonly string[],
): Disposable & { readonly checks: number } {
  let checks = 0;
  const timer = setInterval(() => {
    // Reads all tables in one turn of the event loop, so that no answer arrives in between.
    // An agent reads the label of a device that is not attached: that file is open for reading, and for a moment.
    for (const hostId of hostIds) checks += account.compareOpenFiles(hostId, openFilesOf(mesh, hostId, true));
  }, LOOK_EVERY_MS);
  return {
    get checks() {
      return checks;
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}

function openFilesOf(mesh: TestMesh, hostId: string, forWriting = false): string[] {
  return openFiles(mesh.process(hostId).pid, forWriting);
}

/**
 * Adds every second host, removes the others, and requires that the final state matches the answers. No process is
 * killed meanwhile.
 */
export async function converge(
  mesh: TestMesh,
  account: Account,
  hostIds: readonly string[],
  callers: readonly HostCaller[],
): Promise<void> {
  const patience = { timeoutMs: PATIENCE_MS, everyMs: 100 };
  const never = () => false;
  await Promise.all(
    hostIds.map(async (hostId, index) => {
      const isAdded = index % 2 === 0;
      try {
        await eventually(async () => {
          const { host } = await mesh.clients.registry.getHost({ hostId });
          return host?.state === HostState.ONLINE;
        }, patience);
        // The registry knows a purged host again once its agent has registered.
        await eventually(() => Promise.all(account.of(hostId).map(({ deviceId }) => mesh.device(deviceId))), patience);
        const caller = callers[index];
        if (isAdded) await caller?.addHost();
        else await caller?.removeHost(never, true);
        await eventually(() => converged(mesh, account, hostId, isAdded), patience);
      } catch (error) {
        account.violated(`${hostId} did not converge: ${error instanceof Error ? error.message : error}`);
      }
    }),
  );
}

async function converged(mesh: TestMesh, account: Account, hostId: string, isAdded: boolean): Promise<void> {
  const { devices: held } = await mesh.agentClient(hostId).listDevices({});
  const open = openFilesOf(mesh, hostId);
  for (const { deviceId, path } of account.of(hostId)) {
    const device = await mesh.device(deviceId);
    const wanted = isAdded ? [AttachState.ATTACHED] : [AttachState.DETACHED, AttachState.UNKNOWN];
    const known = held.find((one) => one.deviceId === deviceId);
    const obeyed = known?.stamp?.deviceGeneration;
    const problem = [
      wanted.some((state) => state === device.attachState) ? "" : `it is ${device.attachState} (${device.lastError})`,
      known?.attached === isAdded ? "" : `its agent says attached: ${known?.attached}`,
      obeyed === device.deviceGeneration || (obeyed === undefined && account.isUntoldSinceRestore(device))
        ? ""
        : `its agent obeyed generation ${obeyed}, not ${device.deviceGeneration}`,
      open.filter((file) => file === path).length === (isAdded ? 1 : 0)
        ? ""
        : `descriptors of ${path}: not ${isAdded ? 1 : 0}`,
    ].filter((text) => text !== "");
    if (problem.length > 0) throw new Error(`${deviceId}: ${problem.join("; ")}`);
  }
}
