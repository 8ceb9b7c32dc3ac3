import { join } from "node:path";
import { AttachState, HostState } from "@diskmesh/api/registry";
import { eventually, type ServiceProcess } from "@diskmesh/testkit";
import { makeDeviceFile, openFiles, RegistryMesh } from "../mesh/registry-mesh.js";
import { Account } from "./account.js";
import { type CallerCounts, HostCaller, PATIENCE_MS } from "./callers.js";
import { seededRandom } from "./random.js";

export interface KillTestOptions {
  readonly seconds: number;
  readonly seed: number;
  readonly hosts: number;
  /** Two to a file. */
  readonly devicesPerHost: number;
  /** The registry's tablet; a folder of the test when absent. */
  readonly storage?: string | undefined;
  readonly report: (line: string) => void;
}

export interface KillTestResult {
  readonly violations: readonly string[];
  readonly kills: { readonly registry: number; readonly agents: number };
  readonly calls: CallerCounts;
  /** Looks at a path whose devices were all told to be out. */
  readonly descriptorChecks: number;
  /** From the last kill until everything was as it was told. */
  readonly convergedMs: number;
}

const DEVICE_BYTES = 64 * 1024;
const LOOK_EVERY_MS = 10;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Adds and removes on real processes, while the registry and the agents are killed at any moment. What a caller was told
 * must be true from then on; in the end everything must be as it was told last.
 */
export async function runKillTest(options: KillTestOptions): Promise<KillTestResult> {
  const { seconds, seed, report } = options;
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
      return { devices };
    },
    // An agent that is started again is not silent for that long, however loaded the machine is.
    registry: {
      heartbeat: { intervalMs: 500, timeoutMs: 60_000, probationMs: 0 },
      ...(options.storage === undefined ? {} : { tablet: { storage: options.storage, name: `kill-test-${seed}` } }),
    },
  });
  const account = new Account(
    hostIds.flatMap((hostId) => devicesOf(hostId, mesh.folder).map((device) => ({ hostId, ...device }))),
  );
  const calls: CallerCounts = { answered: 0, retried: 0 };
  const callers = hostIds.map(
    (hostId, index) => new HostCaller(mesh, account, hostId, seededRandom(seed * 1_000 + index), calls),
  );
  const untilMs = performance.now() + seconds * 1_000;
  const isOver = () => performance.now() > untilMs || account.violations.length > 0;
  for (const hostId of hostIds) await eventually(() => mesh.operator.getHost({ hostId }), { timeoutMs: PATIENCE_MS });
  report(`killing for ${seconds} s, seed ${seed}`);
  const watching = watchDescriptors(mesh, account, hostIds);
  const killing = kill(mesh, seed, isOver);
  await Promise.all(callers.map((caller) => caller.run(isOver)));
  const kills = await killing;
  report(`${kills.registry} kills of the registry, ${kills.agents} of agents, ${calls.answered} answers; converging`);
  const startedAtMs = performance.now();
  await converge(mesh, account, hostIds, callers);
  const convergedMs = performance.now() - startedAtMs;
  const descriptorChecks = await watching.stop();
  return { violations: account.violations, kills, calls, descriptorChecks, convergedMs };
}

/** Kills processes, alone and at once, again and again, at whatever they are at, and starts them again. */
async function kill(mesh: RegistryMesh, seed: number, isOver: () => boolean) {
  const kills = { registry: 0, agents: 0 };
  const agents = [...mesh.agents.values()];
  // A killer for each: while one process is started again, another may be killed.
  const killer = async (kind: keyof typeof kills, victim: ServiceProcess, random: () => number) => {
    while (!isOver()) {
      await pause(100 + random() * 900);
      await victim.restart();
      kills[kind]++;
    }
  };
  await Promise.all([
    killer("registry", mesh.registry, seededRandom(seed * 7)),
    ...agents.map((agent, index) => killer("agents", agent, seededRandom(seed * 7 + 1 + index))),
  ]);
  return kills;
}

function watchDescriptors(mesh: RegistryMesh, account: Account, hostIds: readonly string[]) {
  let checks = 0;
  const timer = setInterval(() => {
    // Nothing of what was told changes while a table is read.
    for (const hostId of hostIds) checks += account.compareOpenFiles(hostId, openFilesOf(mesh, hostId));
  }, LOOK_EVERY_MS);
  return {
    stop: async () => {
      clearInterval(timer);
      return checks;
    },
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
