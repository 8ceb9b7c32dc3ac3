import { MIB_BYTES } from "@diskmesh/domain";
import { SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { wholeFleet } from "../mesh/fleets.js";
import { addHosts } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { type Measurement, measurement, median } from "./measure.js";
import { startNoopServer } from "./noop.js";
import { callInTurns, type PassthruRound } from "./passthru-caller.js";

const HOST = "host-1";
/** Rounds before measuring: the director's code is compiled after some thousands of calls. */
const WARM_UP_ROUNDS = 30;
const ROUNDS = 31;
/** Sequential calls of a round. Few, so that the machine is in the same state for bare RPCs and for calls. */
const CALLS = 100;
const REPORTED_ROUNDS = 10;

/**
 * Measures a node's method without effect, through the director, the agent and the driver's process, against a bare
 * RPC.
 */
export async function benchPassthru(report: (line: string) => void): Promise<Measurement[]> {
  report("a method of a node");
  const drivers = [{ package: SAMPLE_DRIVER }];
  await using mesh = await TestMesh.start(
    wholeFleet({
      hosts: 1,
      devicesPerHost: 1,
      deviceSizeBytes: MIB_BYTES,
      // Services use their default log and heartbeat settings.
      overrides: { "disk-agent": { drivers }, "disk-registry": { heartbeat: {} } },
    }),
  );
  await addHosts(mesh);
  await using noop = await startNoopServer(mesh.certificates.files("disk-registry"), mesh.operatorFiles);
  let reported = 0;
  const rounds = await callInTurns(
    {
      tls: mesh.operatorFiles,
      nodeId: HOST,
      director: { address: mesh.address("director"), pids: [mesh.process("director").pid, mesh.process(HOST).pid] },
      noop: { address: noop.address, pids: [noop.pid] },
      rounds: WARM_UP_ROUNDS + ROUNDS,
      calls: CALLS,
    },
    ({ callMs, noopMs }) => {
      if (reported++ % REPORTED_ROUNDS === 0)
        report(`  ${callMs.toFixed(2)} ms, of a bare RPC ${noopMs.toFixed(2)} ms`);
    },
  );
  const measured = rounds.slice(WARM_UP_ROUNDS);
  const floorMs = median(measured.map(({ noopMs }) => noopMs));
  // Mean instead of median, because the kernel counts CPU time in hundredths of a second, which is coarse for one
  // round.
  const mean = (of: (round: PassthruRound) => number) => measured.reduce((sum, round) => sum + of(round), 0) / ROUNDS;
  const floorOf = "bare grpc-js no-op over mutual TLS";
  return [
    measurement({
      name: "node_method_time",
      // Each round's call duration is divided by the same round's floor.
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
