import { MIB_BYTES } from "@diskmesh/domain";
import { freePort, temporaryFolder } from "@diskmesh/testkit";
import { wholeFleet } from "../mesh/fleets.js";
import { addHosts, deployInstances, devicesReady } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { countingSyncs, syncsOf, trafficOf } from "./counters.js";
import { type Bench, cpuTimeMs, type Round } from "./measure.js";

const HOSTS = 16;
const PAIRS_TOGETHER = 640;
const PAIRS_ALONE = 40;
const SERVICES = ["director", "disk-registry", "cpi-dispatcher"] as const;

type Pair = (slot: number) => Promise<void>;

/** Measures the whole mesh: providing a disk to a VM and detaching it again (a pair), by 16 callers and by one. */
export async function startPairs(report: (line: string) => void): Promise<Bench> {
  report(`a mesh of ${HOSTS} hosts`);
  const folder = temporaryFolder();
  const hostIds = Array.from({ length: HOSTS }, (_, index) => `host-${index + 1}`);
  const metricsPorts = new Map<string, number>();
  for (const name of [...SERVICES, ...hostIds]) metricsPorts.set(name, await freePort());
  const fleet = { hosts: HOSTS, devicesPerHost: 2, deviceSizeBytes: MIB_BYTES, metricsPorts };
  // Empty: heartbeats at the default interval.
  const overrides = { "disk-registry": { heartbeat: {} } };
  const mesh = await TestMesh.start(wholeFleet({ ...fleet, overrides, env: countingSyncs(folder) }));
  await addHosts(mesh);
  await devicesReady(mesh);
  const pair = pairOf(mesh, await deployInstances(mesh));
  const measured = (callers: number, pairs: number) => measure({ mesh, folder, metricsPorts }, pair, callers, pairs);
  return {
    // The CPU time of an agent falls until it has served some 1,000 pairs.
    warmUpRounds: 20,
    rounds: 9,
    round: async () => {
      const together = await measured(HOSTS, PAIRS_TOGETHER);
      const alone = await measured(1, PAIRS_ALONE);
      const { pairs_rate: rate, ...others } = together;
      report(`${rate?.value.toFixed(1)} pairs/s, ${others.pairs_cpu_services?.value.toFixed(2)} ms of CPU time a pair`);
      const pick = (name: string) => (alone[name] ? { [`${name}_alone`]: alone[name] } : {});
      return { ...together, ...pick("pairs_took"), ...pick("pairs_syncs_director") };
    },
    [Symbol.asyncDispose]: () => mesh[Symbol.asyncDispose](),
  };
}

interface Place {
  readonly mesh: TestMesh;
  readonly folder: string;
  readonly metricsPorts: ReadonlyMap<string, number>;
}

async function measure(
  { mesh, folder, metricsPorts }: Place,
  pair: Pair,
  callers: number,
  pairs: number,
): Promise<Round> {
  const cpuMs = (names: readonly string[]) => names.reduce((sum, name) => sum + cpuTimeMs(mesh.process(name).pid), 0);
  const counters = async (): Promise<Readonly<Record<string, number>>> => {
    const traffic = await Promise.all([...metricsPorts.values()].map(trafficOf));
    const sum = (field: "rpcs" | "requests") => traffic.reduce((total, each) => total + each[field], 0);
    const syncs = await syncsOf(mesh.process("director"), folder);
    const each = Object.fromEntries(SERVICES.map((name) => [`cpu_${name}`, cpuMs([name])]));
    const cpu = { cpu_services: cpuMs(SERVICES), ...each, cpu_agents: cpuMs(mesh.hostIds) };
    // A request over NATS has an answer.
    return { ...cpu, syncs_director: syncs, rpcs: sum("rpcs"), nats_messages: 2 * sum("requests") };
  };
  const before = await counters();
  const startedMs = performance.now();
  // Each caller has its own disk and instance, so that no caller waits for another's lock.
  await Promise.all(
    Array.from({ length: callers }, async (_, slot) => {
      for (let count = 0; count < pairs / callers; count++) await pair(slot);
    }),
  );
  const tookMs = performance.now() - startedMs;
  const after = await counters();
  const values = Object.entries(after).map(([name, value]) => [
    `pairs_${name}`,
    { value: (value - (before[name] ?? 0)) / pairs, unit: name.startsWith("cpu_") ? "ms/pair" : "/pair" },
  ]);
  const rate = { value: (1_000 * pairs) / tookMs, unit: "pairs/s" };
  const took = { value: (tookMs * callers) / pairs, unit: "ms/pair" };
  return { pairs_rate: rate, pairs_took: took, ...Object.fromEntries(values) };
}

function pairOf(mesh: TestMesh, instanceIds: readonly string[]): Pair {
  const { disks } = mesh.clients;
  return async (slot) => {
    const diskName = `bench-${slot}`;
    const place = { diskName, instanceId: instanceIds[slot] ?? "", diskPoolName: "default", sizeBytes: MIB_BYTES };
    const { task: provided } = await disks.provideDynamicDisk({ ...place, wait: true });
    if (provided?.state !== "TASK_STATE_DONE") throw new Error(`provide of ${diskName}: ${provided?.result}`);
    const { task: detached } = await disks.detachDynamicDisk({ diskName, wait: true });
    if (detached?.state !== "TASK_STATE_DONE") throw new Error(`detach of ${diskName}: ${detached?.result}`);
  };
}
