import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { rebootable } from "../mesh/boot-ids.js";
import { fillRange, makeDeviceFile } from "../mesh/device-files.js";
import { registryFleet } from "../mesh/fleets.js";
import type { Store } from "../mesh/stores.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { Random } from "../random.js";
import { Account, type DevicePlace } from "./account.js";
import { Calls, HostCaller, PATIENCE_MS } from "./callers.js";
import { converge, watchDescriptors } from "./convergence.js";
import { DiskUser } from "./disks.js";
import { type KillCounts, KilledRegistry, kill } from "./kill.js";
import { type Mischief, Outsider } from "./outsider.js";
import { backUp, type Restoring, restore } from "./restoring.js";
import { Truce } from "./truce.js";

export interface KillTestOptions {
  readonly seconds: number;
  readonly seed: number;
  readonly hosts: number;
  /** Number of devices per host; two devices share a file. */
  readonly devicesPerHost: number;
  /** Time in ms that a process runs on after it has done something, before it may be killed; 0 by default. */
  readonly restMs?: number;
  readonly store: Store;
  /** Kinds of tampering with the disks' host; all by default. */
  readonly mischief?: readonly Mischief[] | undefined;
  readonly report: (line: string) => void;
}

export interface KillTestResult {
  readonly violations: readonly string[];
  readonly kills: KillCounts;
  /** Number of times that the disks' host was tampered with, by kind. */
  readonly mischief: Outsider["done"];
  /** Number of disks that were read and written during the tampering. */
  readonly triedDisks: number;
  readonly calls: Calls;
  /** Number of devices that were settled at the backup and compared after its restore. */
  readonly restoredDevices: number;
  /** Number of complete reads of a disk. */
  readonly diskReads: number;
  /** Number of checks of paths whose devices were all removed. */
  readonly descriptorChecks: number;
  /** Time in ms from the last kill until all states matched the answers. */
  readonly convergedMs: number;
}

const DEVICE_BYTES = 64 * 1024;
/** Host whose devices are used for disks only. */
const DISK_HOST = "kill-disks";
const DISK_HOST_DEVICES = 6;
/** Shares of the test's duration after which the backup is created, and restored. */
const BACKUP_AFTER = 0.3;
const RESTORE_AFTER = 0.6;

/**
 * Adds and removes devices on real processes while registries, agents and the database are killed at random times, and
 * a backup is restored in between. Each answer to a caller must stay true, or be true as of the backup. In the end all
 * states must match the last answers. No disk may ever contain another disk's data.
 */
export async function runKillTest(options: KillTestOptions): Promise<KillTestResult> {
  const { seconds, seed, store, restMs = 0, report } = options;
  const hostIds = Array.from({ length: options.hosts }, (_, index) => `kill-${index + 1}`);
  await using mesh = await startMesh(options, hostIds);
  const account = new Account(hostIds.flatMap((hostId) => devicesOf(hostId, mesh.folder, options.devicesPerHost)));
  const calls = new Calls();
  const callers = hostIds.map(
    (hostId, index) => new HostCaller(mesh, account, hostId, new Random(seed * 1_000 + index), calls),
  );
  const disks = new DiskUser({
    mesh,
    account,
    calls,
    hostId: DISK_HOST,
    diskBytes: DEVICE_BYTES,
    random: new Random(seed * 1_000 + 999),
  });
  for (const hostId of [...hostIds, DISK_HOST])
    await eventually(() => mesh.clients.registry.getHost({ hostId }), { timeoutMs: PATIENCE_MS });
  await disks.prepare();
  report(`${store.title}: killing for ${seconds} s, seed ${seed}`);
  const untilMs = performance.now() + seconds * 1_000;
  using watching = watchDescriptors(mesh, account, hostIds);
  const [killers, automation, users] = [new Truce(), new Truce(), new Truce()];
  const registries = mesh
    .all("disk-registry")
    .map((process) => new KilledRegistry(process, store.database !== undefined, account));
  const outsider = new Outsider({
    agent: mesh.process(DISK_HOST),
    devices: devicesOf(DISK_HOST, mesh.folder, DISK_HOST_DEVICES),
    folder: mesh.folder,
    hostId: DISK_HOST,
    disks,
    random: new Random(seed * 1_000 + 998),
    mischief: options.mischief,
  });
  const restoring = { mesh, registries, account, calls, disks, killers, callers: automation };
  let restoredDevices: number | undefined;
  const kills: KillCounts = { registry: 0, agents: 0, database: 0 };
  const allWereKilled = () =>
    kills.registry > 0 && kills.agents > 0 && (store.database === undefined || kills.database > 0);
  // Runs longer on a busy machine, until enough was done.
  const isEnough = () =>
    (allWereKilled() &&
      calls.adds > 0 &&
      calls.removes > 0 &&
      calls.erased > 0 &&
      outsider.hasDoneAll &&
      disks.tried > 0 &&
      watching.checks > 0 &&
      restoredDevices !== undefined) ||
    performance.now() > untilMs + 2 * PATIENCE_MS;
  const isOver = () => account.violations.length > 0 || (performance.now() > untilMs && isEnough());
  // The first violation ends all tasks.
  const work = [
    kill({ mesh, registries, store, account, calls, kills, seed, restMs, truce: killers, isOver }),
    ...callers.map((caller) => caller.run(isOver, automation)),
    disks.run(isOver, { act: (fn) => automation.act(() => users.act(fn)) }),
    outsider.run(isOver, { hold: (fn) => automation.act(() => users.hold(fn)) }),
    restoreInTheMiddle(restoring, { ...options, isOver }).then((devices) => {
      restoredDevices = devices;
    }),
  ];
  await Promise.all(work.map((part) => part.catch((error) => account.violated(messageOf(error)))));
  report(`the disks' host: ${JSON.stringify(outsider.done)}, ${disks.tried} disks used meanwhile`);
  report(
    `${kills.registry} kills of registries, ${kills.agents} of agents, ${kills.database} of the database; ` +
      `${calls.adds} adds, ${calls.removes} removes, ${calls.answered} answers; converging`,
  );
  const startedAtMs = performance.now();
  if (account.violations.length === 0) await converge(mesh, account, hostIds, callers);
  return {
    violations: account.violations,
    kills,
    mischief: outsider.done,
    triedDisks: disks.tried,
    calls,
    restoredDevices: restoredDevices ?? 0,
    diskReads: disks.reads,
    descriptorChecks: watching.checks,
    convergedMs: performance.now() - startedAtMs,
  };
}

/**
 * Restores a backup during the test. Resolves with the number of devices that were settled at the backup; 0 when the
 * test ended before.
 */
async function restoreInTheMiddle(
  restoring: Restoring,
  options: Pick<KillTestOptions, "seconds" | "report"> & { readonly isOver: () => boolean },
): Promise<number> {
  const { account, calls, disks } = restoring;
  const { seconds, isOver, report } = options;
  const startedAtMs = performance.now();
  const until = async (share: number, condition: () => boolean): Promise<boolean> => {
    while (!isOver() && (performance.now() < startedAtMs + share * seconds * 1_000 || !condition())) await sleep(50);
    return !isOver();
  };
  if (!(await until(BACKUP_AFTER, () => calls.adds > 0 && calls.removes > 0))) return 0;
  const file = await backUp(restoring);
  report("backed up");
  // The restore must undo something.
  const isSomethingNew = () => account.sinceBackup.changed > 0 && disks.strangers > 0;
  if (!(await until(RESTORE_AFTER, isSomethingNew))) return 0;
  report(`${disks.strangers} disks were made since; restoring`);
  const devices = await restore(restoring, file);
  report(`restored; ${devices} devices are as they were at the backup`);
  return devices;
}

function startMesh(options: KillTestOptions, hostIds: readonly string[]): Promise<TestMesh> {
  const { store } = options;
  return TestMesh.start(
    registryFleet({
      hostIds: [...hostIds, DISK_HOST],
      agentLauncher: (hostId, folder) => (hostId === DISK_HOST ? rebootable(folder, hostId) : []),
      agent: (hostId, folder) => {
        const places = devicesOf(hostId, folder, hostId === DISK_HOST ? DISK_HOST_DEVICES : options.devicesPerHost);
        for (const { path } of places) makeDeviceFile(path, 2 * DEVICE_BYTES);
        for (const place of places) fillRange(place);
        return { devices: places.map(({ hostId: _, ...device }) => device) };
      },
      // Long timeout, so that a restarting agent does not count as silent, even on a busy machine.
      registry: {
        heartbeat: { intervalMs: 500, timeoutMs: 60_000, probationMs: 0 },
      },
      registries: store.registries,
      tablet: store.tablet,
    }),
  );
}

function devicesOf(hostId: string, folder: string, count: number): DevicePlace[] {
  return Array.from({ length: count }, (_, index) => ({
    hostId,
    deviceId: `${hostId}-d${index + 1}`,
    path: join(folder, "files", hostId, `${Math.floor(index / 2) + 1}`),
    offsetBytes: (index % 2) * DEVICE_BYTES,
    sizeBytes: DEVICE_BYTES,
  }));
}
