import { join } from "node:path";
import { AttachState, HostState } from "@diskmesh/api/registry";
import { messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { fillRange, makeDeviceFile, openFiles } from "../mesh/device-files.js";
import { RegistryMesh } from "../mesh/registry-mesh.js";
import { Random } from "../random.js";
import { Account } from "./account.js";
import { Calls, HostCaller, PATIENCE_MS } from "./callers.js";
import { type KillCounts, kill } from "./kill.js";
import type { Store } from "./stores.js";

export interface KillTestOptions {
  readonly seconds: number;
  readonly seed: number;
  readonly hosts: number;
  /** Two to a file. */
  readonly devicesPerHost: number;
  readonly store: Store;
  readonly report: (line: string) => void;
}

export interface KillTestResult {
  readonly violations: readonly string[];
  readonly kills: KillCounts;
  readonly calls: Calls;
  /** Looks at a path whose devices were all told to be out. */
  readonly descriptorChecks: number;
  /** From the last kill until everything was as it was told. */
  readonly convergedMs: number;
}

const DEVICE_BYTES = 64 * 1024;
const LOOK_EVERY_MS = 10;

/**
 * Adds and removes on real processes, while the registry, the agents and the database are killed at any moment. What a
 * caller was told must be true from then on; in the end everything must be as it was told last.
 */
export async function runKillTest(options: KillTestOptions): Promise<KillTestResult> {
  const { seconds, seed, store, report } = options;
  const hostIds = Array.from({ length: options.hosts }, (_, index) => `kill-${index + 1}`);
  const devicesOf = (hostId: string, folder: string) =>
    Array.from({ length: options.devicesPerHost }, (_, index) => ({
      deviceId: `${hostId}-d${index + 1}`,
      path: join(folder, "files", hostId, `${Math.floor(index / 2) + 1}`),
      offsetBytes: (index % 2) * DEVICE_BYTES,
      sizeBytes: DEVICE_BYTES,
    }));
  await using mesh = await RegistryMesh.start({
    hostIds,
    agent: (hostId, folder) => {
      const devices = devicesOf(hostId, folder);
      for (const { path } of devices) makeDeviceFile(path, 2 * DEVICE_BYTES);
      for (const device of devices) fillRange(device);
      return { devices };
    },
    // An agent that is started again is not silent for that long, however loaded the machine is.
    registry: {
      heartbeat: { intervalMs: 500, timeoutMs: 60_000, probationMs: 0 },
      ...(store.tablet === undefined ? {} : { tablet: store.tablet }),
    },
    registries: store.registries,
  });
  const account = new Account(
    hostIds.flatMap((hostId) => devicesOf(hostId, mesh.folder).map((device) => ({ hostId, ...device }))),
  );
  const calls = new Calls();
  const callers = hostIds.map(
    (hostId, index) => new HostCaller(mesh, account, hostId, new Random(seed * 1_000 + index), calls),
  );
  for (const hostId of hostIds) await eventually(() => mesh.operator.getHost({ hostId }), { timeoutMs: PATIENCE_MS });
  report(`${store.title}: killing for ${seconds} s, seed ${seed}`);
  const untilMs = performance.now() + seconds * 1_000;
  using watching = watchDescriptors(mesh, account, hostIds);
  // A busy machine takes longer until there is something to judge.
  const isEnough = () =>
    (calls.adds > 0 && calls.removes > 0 && calls.erased > 0 && watching.checks > 0) ||
    performance.now() > untilMs + PATIENCE_MS;
  const isOver = () => account.violations.length > 0 || (performance.now() > untilMs && isEnough());
  const kills: KillCounts = { registry: 0, agents: 0, database: 0 };
  // What cannot go on ends the others too, since it is a violation.
  const work = [
    kill({ mesh, store, account, calls, kills, seed, isOver }),
    ...callers.map((caller) => caller.run(isOver)),
  ];
  await Promise.all(work.map((part) => part.catch((error) => account.violated(messageOf(error)))));
  report(
    `${kills.registry} kills of registries, ${kills.agents} of agents, ${kills.database} of the database; ` +
      `${calls.adds} adds, ${calls.removes} removes, ${calls.answered} answers; converging`,
  );
  const startedAtMs = performance.now();
  if (account.violations.length === 0) await converge(mesh, account, hostIds, callers);
  const convergedMs = performance.now() - startedAtMs;
  return { violations: account.violations, kills, calls, descriptorChecks: watching.checks, convergedMs };
}

function watchDescriptors(
  mesh: RegistryMesh,
  account: Account,
  hostIds: readonly string[],
): Disposable & { readonly checks: number } {
  let checks = 0;
  const timer = setInterval(() => {
    // Nothing of what was told changes while a table is read.
    for (const hostId of hostIds) checks += account.compareOpenFiles(hostId, openFilesOf(mesh, hostId));
  }, LOOK_EVERY_MS);
  return {
    get checks() {
      return checks;
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}

function openFilesOf(mesh: RegistryMesh, hostId: string): string[] {
  return openFiles(mesh.agent(hostId).pid);
}

/** No more kills: every second host is added, the others are removed, and all of it must come true. */
async function converge(
  mesh: RegistryMesh,
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
          const { host } = await mesh.operator.getHost({ hostId });
          return host?.state === HostState.ONLINE;
        }, patience);
        // A purged host is known again once its agent has registered.
        await eventually(() => Promise.all(account.of(hostId).map(({ deviceId }) => mesh.device(deviceId))), patience);
        const caller = callers[index];
        if (isAdded) await caller?.addHost();
        else await caller?.removeHost(never);
        await eventually(() => converged(mesh, account, hostId, isAdded), patience);
      } catch (error) {
        account.violated(`${hostId} did not converge: ${error instanceof Error ? error.message : error}`);
      }
    }),
  );
}

async function converged(mesh: RegistryMesh, account: Account, hostId: string, isAdded: boolean): Promise<void> {
  const { devices: held } = await mesh.agentClient(hostId).listDevices({});
  const open = openFilesOf(mesh, hostId);
  for (const { deviceId, path } of account.of(hostId)) {
    const device = await mesh.device(deviceId);
    const wanted = isAdded ? [AttachState.ATTACHED] : [AttachState.DETACHED, AttachState.UNKNOWN];
    const known = held.find((one) => one.deviceId === deviceId);
    const problem = [
      wanted.some((state) => state === device.attachState) ? "" : `it is ${device.attachState} (${device.lastError})`,
      known?.attached === isAdded ? "" : `its agent says attached: ${known?.attached}`,
      known?.stamp?.deviceGeneration === device.deviceGeneration
        ? ""
        : `its agent obeyed generation ${known?.stamp?.deviceGeneration}, not ${device.deviceGeneration}`,
      open.filter((file) => file === path).length === (isAdded ? 1 : 0)
        ? ""
        : `descriptors of ${path}: not ${isAdded ? 1 : 0}`,
    ].filter((text) => text !== "");
    if (problem.length > 0) throw new Error(`${deviceId}: ${problem.join("; ")}`);
  }
}
