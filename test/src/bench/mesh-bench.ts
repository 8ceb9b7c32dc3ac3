import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { wholeFleet } from "../mesh/fleets.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { bareCommitRate } from "./floors.js";
import { cpuTimeMs, drainRatePerSecond, type Measurement, measurement, median, ratePerSecond } from "./measure.js";
import { startNoopServer } from "./noop.js";

const HOSTS = 16;
const DEVICES_PER_HOST = 2;
const ROUNDS = 9;
const PAIRS_TOGETHER = 640;
/**
 * Rounds before measuring. The CPU time of an agent falls until it has served some 1,000 pairs, because V8 compiles its
 * code meanwhile.
 */
const WARM_UP_ROUNDS = 25;
const PAIRS_ALONE = 40;
const NOOP_LOAD = { concurrency: 64, durationMs: 1_000, warmupMs: 500 };
const SERVICES = ["director", "disk-registry", "cpi-dispatcher"] as const;
const MAX_CPU_MS = 8.5;

type ProvideAndDetach = (slot: number) => Promise<void>;

interface Pairs {
  readonly pairsPerSecond: number;
  /** Duration of a single caller's pair, in ms. */
  readonly pairMs: number;
  /** CPU time per pair in ms, by process. */
  readonly cpuMs: Readonly<Record<string, number>>;
}

/** A measured round, with its floors. */
interface Round extends Pairs {
  readonly commitMs: number;
  readonly noopsPerSecond: number;
}

/** Measures the whole mesh: providing a disk to a VM and detaching it again (a pair). */
export async function benchMesh(report: (line: string) => void): Promise<Measurement[]> {
  report(`a mesh of ${HOSTS} hosts`);
  await using mesh = await TestMesh.start(
    wholeFleet({
      hosts: HOSTS,
      devicesPerHost: DEVICES_PER_HOST,
      deviceSizeBytes: MIB_BYTES,
    }),
  );
  await using noop = await startNoopServer(mesh.certificates.files("disk-registry"), mesh.operatorFiles);
  const provideAndDetach = pairsOf(mesh, await deploy(mesh));
  let bare = 0;
  const measured = async (concurrency: number, pairs: number): Promise<Round> => {
    const commitRate = await bareCommitRate(join(mesh.folder, "bare", String(bare++)));
    const noopsPerSecond = await ratePerSecond(NOOP_LOAD, () => noop.call());
    const round = await pairsRound(mesh, provideAndDetach, concurrency, pairs);
    report(`  ${roundText(round)}; ${noopsPerSecond.toFixed(0)} no-ops/s`);
    return { ...round, noopsPerSecond, commitMs: 1_000 / commitRate };
  };
  const inRounds = async (count: number, concurrency: number, pairs: number) => {
    report(`provide and detach, ${concurrency} at a time`);
    const rounds: Round[] = [];
    while (rounds.length < count) rounds.push(await measured(concurrency, pairs));
    return rounds;
  };
  report("warming up");
  for (let round = 0; round < WARM_UP_ROUNDS; round++)
    report(`  ${roundText(await pairsRound(mesh, provideAndDetach, HOSTS, PAIRS_TOGETHER))}`);
  // Runs concurrent pairs first, so that the code for single callers is compiled, too.
  const warm = await inRounds(ROUNDS, HOSTS, PAIRS_TOGETHER);
  const alone = await inRounds(1 + ROUNDS, 1, PAIRS_ALONE);
  return [...togetherMeasurements(warm), ...aloneMeasurements(alone.slice(1))];
}

function pairsOf(mesh: TestMesh, instanceIds: readonly string[]): ProvideAndDetach {
  return async (slot) => {
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
}

async function pairsRound(
  mesh: TestMesh,
  provideAndDetach: ProvideAndDetach,
  concurrency: number,
  pairs: number,
): Promise<Pairs> {
  const pids = new Map<string, number>(SERVICES.map((name) => [name, mesh.process(name).pid]));
  const before = new Map([...pids].map(([name, pid]) => [name, cpuTimeMs(pid)]));
  const startedAtMs = performance.now();
  // Each caller has its own disk and instance, so that no caller waits for another's lock.
  const perCaller = pairs / concurrency;
  await drainRatePerSecond({ concurrency, count: concurrency }, async (slot) => {
    for (let pair = 0; pair < perCaller; pair++) await provideAndDetach(slot);
  });
  const tookMs = performance.now() - startedAtMs;
  const cpuMs = [...pids].map(([name, pid]) => [name, (cpuTimeMs(pid) - (before.get(name) ?? 0)) / pairs] as const);
  return {
    pairsPerSecond: (1_000 * pairs) / tookMs,
    pairMs: (tookMs * concurrency) / pairs,
    cpuMs: Object.fromEntries(cpuMs),
  };
}

function roundText({ pairsPerSecond, pairMs, cpuMs }: Pairs): string {
  const cpu = Object.entries(cpuMs).map(([name, ms]) => `${name} ${ms.toFixed(1)} ms`);
  return `${pairsPerSecond.toFixed(1)} pairs/s, ${pairMs.toFixed(1)} ms each; CPU a pair: ${cpu.join(", ")}`;
}

const medianOf = (rounds: readonly Round[], of: (round: Round) => number): number => median(rounds.map(of));

function togetherMeasurements(rounds: readonly Round[]): Measurement[] {
  const name = `provide_detach_${HOSTS}_callers`;
  return [
    measurement({
      name,
      value: medianOf(rounds, (round) => round.pairsPerSecond),
      unit: "pairs/s",
      floor: medianOf(rounds, (round) => round.noopsPerSecond),
      floorOf: "bare grpc-js no-op over mutual TLS, calls/s",
      digits: 4,
      budget: { atLeast: 0.0125 },
    }),
    measurement({
      name: `${name}_cpu`,
      value: medianOf(rounds, ({ cpuMs }) => Object.values(cpuMs).reduce((sum, ms) => sum + ms, 0)),
      unit: "ms/pair",
      floor: MAX_CPU_MS,
      floorOf: `the most that ${SERVICES.join(", ")} may take together`,
      budget: { atMost: 1 },
    }),
  ];
}

function aloneMeasurements(rounds: readonly Round[]): Measurement[] {
  return [
    measurement({
      name: "provide_detach_alone",
      value: medianOf(rounds, (round) => round.pairMs),
      unit: "ms/pair",
      floor: medianOf(rounds, (round) => round.commitMs),
      floorOf: "a bare commit",
      budget: { atMost: 75 },
    }),
  ];
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
