import { type MethodTarget, VendorPassthruServiceDefinition } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import { SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { eventually } from "@diskmesh/testkit";
import { addHosts } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { cpuTimeMs, drainRatePerSecond, type Measurement, measurement, median } from "./measure.js";
import { startNoopServer } from "./noop.js";

const HOST = "host-1";
/** In the director as much code is to be compiled as takes some thousands of calls. */
const WARM_UP_ROUNDS = 30;
const ROUNDS = 31;
/** Of one caller, one after the other: so few that a bare RPC and a call find the machine in the same state. */
const CALLS = 100;
const REPORTED_ROUNDS = 10;

interface Round {
  readonly callMs: number;
  readonly noopMs: number;
  readonly callCpuMs: number;
  readonly noopCpuMs: number;
}

/** A method of a node that does nothing, through the director, the agent and the driver's process, beside a bare RPC. */
export async function benchPassthru(report: (line: string) => void): Promise<Measurement[]> {
  report("a method of a node");
  const drivers = { drivers: [{ package: SAMPLE_DRIVER }] };
  await using mesh = await TestMesh.start({
    hosts: 1,
    devicesPerHost: 1,
    deviceSizeBytes: MIB_BYTES,
    // As services log and beat by default.
    overrides: { "disk-agent": { drivers }, "disk-registry": { heartbeat: {} } },
  });
  const { group } = mesh;
  await addHosts(mesh);
  const vendors = group.client(VendorPassthruServiceDefinition, "director");
  const target: MethodTarget = { target: { $case: "nodeId", value: HOST } };
  const call = () => vendors.callMethod({ target, method: "third_method_sync", args: { bar: "meow" } });
  await eventually(call);
  await using noop = await startNoopServer(group.certificates.files("disk-registry"), group.operatorFiles);
  const pids = [mesh.process("director").pid, mesh.process(HOST).pid];
  const timed = async (work: () => Promise<unknown>, of: readonly number[]) => {
    const before = cpuOf(of);
    const rate = await drainRatePerSecond({ concurrency: 1, count: CALLS }, work);
    return { ms: 1_000 / rate, cpuMs: (cpuOf(of) - before) / CALLS };
  };
  const rounds: Round[] = [];
  // In turns, so that a machine that slows down for a while slows both.
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    const bare = await timed(() => noop.call(), [noop.pid]);
    const called = await timed(call, pids);
    if (round % REPORTED_ROUNDS === 0) report(`  ${called.ms.toFixed(2)} ms, of a bare RPC ${bare.ms.toFixed(2)} ms`);
    rounds.push({ callMs: called.ms, noopMs: bare.ms, callCpuMs: called.cpuMs, noopCpuMs: bare.cpuMs });
  }
  const measured = rounds.slice(WARM_UP_ROUNDS);
  const floorMs = median(measured.map(({ noopMs }) => noopMs));
  // Of the kernel's hundredths of a second a round has too few.
  const mean = (of: (round: Round) => number) => measured.reduce((sum, round) => sum + of(round), 0) / ROUNDS;
  const floorOf = "bare grpc-js no-op over mutual TLS";
  return [
    measurement({
      name: "node_method_time",
      // Each round's call beside its own floor.
      value: median(measured.map(({ callMs, noopMs }) => callMs / noopMs)) * floorMs,
      unit: "ms/call",
      floor: floorMs,
      floorOf,
      budget: { atMost: 3 },
    }),
    measurement({
      name: "node_method_cpu",
      value: mean(({ callCpuMs }) => callCpuMs),
      unit: "ms/call of director and agent",
      floor: mean(({ noopCpuMs }) => noopCpuMs),
      floorOf: `the server of a ${floorOf}`,
      budget: undefined,
    }),
  ];
}

function cpuOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuTimeMs(pid), 0);
}
