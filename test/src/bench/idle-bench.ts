import { setTimeout as sleep } from "node:timers/promises";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { wholeFleet } from "../mesh/fleets.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { cpuTimeMs, type Measurement, measurement } from "./measure.js";

const DEVICES = 16;
const SETTLE_MS = 10_000;
const MEASURED_MS = 40_000;
const MAX_PERCENT = 0.5;

/** Measures the CPU time of an agent whose devices are in operation but idle. */
export async function benchIdle(report: (line: string) => void): Promise<Measurement[]> {
  report(`an idle agent with ${DEVICES} devices, for ${MEASURED_MS / 1_000} s`);
  await using mesh = await TestMesh.start(
    wholeFleet({
      hosts: 1,
      devicesPerHost: DEVICES,
      deviceSizeBytes: MIB_BYTES,
      // Empty: heartbeats at the default interval.
      overrides: { "disk-registry": { heartbeat: {} } },
    }),
  );
  const [hostId = ""] = mesh.hostIds;
  await mesh.clients.registry.addHost({ hostId });
  await eventually(async () => {
    const { devices } = await mesh.clients.registry.listDevices({ attachState: "ATTACH_STATE_ATTACHED" });
    const clean = devices.filter((device) => !device.dirty).length;
    if (clean < DEVICES) throw new Error(`${clean} devices are ready`);
  });
  await sleep(SETTLE_MS);
  const { pid } = mesh.process(hostId);
  const [cpuBeforeMs, beganAtMs] = [cpuTimeMs(pid), performance.now()];
  await sleep(MEASURED_MS);
  const tookMs = performance.now() - beganAtMs;
  return [
    measurement({
      name: "idle_agent_cpu",
      value: (100 * (cpuTimeMs(pid) - cpuBeforeMs)) / tookMs,
      unit: "% of a core",
      floor: MAX_PERCENT,
      floorOf: "the most that is allowed",
      budget: { atMost: 1 },
    }),
  ];
}
