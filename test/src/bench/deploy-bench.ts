import { TaskState } from "@diskmesh/api/director";
import { TestDirector } from "@diskmesh/director/testing";
import { endedTask } from "./ended-task.js";
import { type Measurement, measurement } from "./measure.js";

const INSTANCES = 200;
const AT_ONCE = 32;
const HOST_IDS = Array.from({ length: INSTANCES + 2 }, (_, index) => `host-${index}`);
const CPIS = "cpis: [{name: far, type: a}, {name: near, type: b}]";
const CLOUD = `
azs: [{name: z1, cpi: far}, {name: z2, cpi: near}]
disk_types: [{name: fast, disk_size: 1024}]
`;

function manifest(name: string, az: string, instances: number): string {
  return `name: ${name}\nupdate: {canaries: 1, max_in_flight: ${AT_ONCE}, canary_watch_time: 0-60000, update_watch_time: 0-60000}\ninstance_groups: [{name: db, instances: ${instances}, azs: [${az}], persistent_disk: 1}]\n`;
}

/**
 * Deploys and recreates 200 instances, 32 concurrently, with a CPI whose calls take a fixed time. Provides disks
 * through another CPI at the same time.
 */
export async function benchDeploy(
  report: (line: string) => void,
  { callMs }: { readonly callMs: number },
): Promise<Measurement[]> {
  const director = await TestDirector.start({}, { hostIds: HOST_IDS });
  const { cpi } = director;
  cpi.capacityMib = 1_000_000;
  cpi.nearCpis.add("near");
  try {
    await director.configs.updateConfig({ type: "cpi", content: CPIS });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
    const deploy = async (text: string) => endedTask(director, await director.deployments.deploy({ manifest: text }));
    const recreate = async (deployment: string) =>
      endedTask(director, await director.lifecycle.recreate({ selection: { deployment } }));
    await timed(() => deploy(manifest("other", "z2", 1)));
    const [other] = (await director.deployments.listInstances({ deployment: "other" })).instances;
    const counted = async (work: () => ReturnType<typeof deploy>): Promise<number> => {
      const before = cpi.callCount;
      await timed(work);
      return cpi.callCount - before;
    };
    const measurements: Measurement[] = [];
    const works = [
      ["deploy", () => deploy(manifest("one", "z1", 1)), () => deploy(manifest("many", "z1", INSTANCES))],
      ["recreate", () => recreate("one"), () => recreate("many")],
    ] as const;
    for (const [name, ofOne, ofMany] of works) {
      cpi.callMs = 0;
      const calls = await counted(ofOne);
      cpi.callMs = callMs;
      const provides = provideUntilEnd(director, other?.instanceId ?? "");
      const tookMs = await timed(ofMany);
      const slowestMs = await provides.stop();
      cpi.callMs = 0;
      report(`${name}: ${calls} calls of one instance, ${INSTANCES} took ${Math.round(tookMs)} ms`);
      measurements.push(
        measurement({
          name: `${name}_time`,
          value: tookMs,
          unit: `ms of ${INSTANCES} instances, a CPI call ${callMs} ms`,
          floor: Math.ceil(INSTANCES / AT_ONCE) * calls * callMs,
          floorOf: `rounds of ${AT_ONCE} x ${calls} calls of one`,
          budget: { atMost: 2 },
        }),
        measurement({
          name: `${name}_provide_meanwhile`,
          value: slowestMs,
          unit: "ms of the slowest",
          floor: 1_000,
          floorOf: "the most that is allowed",
          budget: { atMost: 1 },
        }),
      );
      await endedTask(director, await director.deployments.deleteDeployment({ deployment: "one" }));
      await deploy(manifest("one", "z1", 1));
    }
    return measurements;
  } finally {
    await director.stop();
  }
}

type Ended = Promise<{ readonly state: TaskState; readonly result: string } | undefined>;

async function timed(work: () => Ended): Promise<number> {
  const startedAtMs = performance.now();
  const task = await work();
  if (task?.state !== TaskState.DONE) throw new Error(`the task ended as ${task?.state}: ${task?.result}`);
  return performance.now() - startedAtMs;
}

/** Provides disks one after another, for another CPI's VM. `stop` returns the longest duration in ms. */
function provideUntilEnd(director: TestDirector, instanceId: string): { stop(): Promise<number> } {
  let stopped = false;
  const run = async (): Promise<number> => {
    let slowestMs = 0;
    for (let count = 0; !stopped; count++) {
      const diskName = `d${count}-${Math.round(performance.now())}`;
      slowestMs = Math.max(slowestMs, await timed(() => director.provide(diskName, instanceId)));
      await director.detach(diskName);
      await director.delete(diskName);
    }
    return slowestMs;
  };
  const running = run();
  return {
    stop: () => {
      stopped = true;
      return running;
    },
  };
}
