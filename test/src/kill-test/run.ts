import { join } from "node:path";
import { messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { fillRange, makeDeviceFile } from "../mesh/device-files.js";
import { RegistryMesh } from "../mesh/registry-mesh.js";
import { Random } from "../random.js";
import { Account } from "./account.js";
import { Calls, HostCaller, PATIENCE_MS } from "./callers.js";
import { converge, watchDescriptors } from "./convergence.js";
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
      ...(store.tablet === undefined ? {} : { tablet: store.tablet("disk-registry") }),
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
