import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Task, TaskState } from "@diskmesh/api/director";
import { TestDirector } from "@diskmesh/director/testing";
import { allPages } from "@diskmesh/rpc";
import { type Bench, corePercent } from "./measure.js";

const AGENTS = 1_000;
/**
 * Heartbeat interval of stock agents. Not shortened, because the processing of a single heartbeat costs more than that
 * of one among many.
 */
const BEAT_INTERVAL_MS = 30_000;
/** Whole intervals, so that every agent sends equally many heartbeats. */
const MEASURED_MS = 2 * BEAT_INTERVAL_MS;
const IDLE_MS = 30_000;
/** Time in ms for the rest of the deploy: compiling code, collecting garbage, archiving tasks. */
const SETTLE_MS = 10_000;
/** Longer than any unary call may take; streams have no maximum deadline. */
const DEPLOY_TIMEOUT_MS = 1_800_000;
const HOST_IDS = Array.from({ length: AGENTS }, (_, index) => `host-${index}`);
const MANIFEST = `name: web
update: {canaries: 1, max_in_flight: 32, canary_watch_time: 0-60000, update_watch_time: 0-60000}
instance_groups: [{name: db, instances: ${AGENTS}, azs: [z1]}]
`;

/**
 * Measures the cost of 1,000 VMs for a director, beyond the cost of a director without VMs: processing a heartbeat from
 * each agent every 30 s, and searching for silent VMs.
 */
export async function startVms(report: (line: string) => void): Promise<Bench> {
  report(`${AGENTS} agents connect to NATS`);
  const director = await TestDirector.start(
    { log: { level: "info" }, resurrection: { enabled: true } },
    { hostIds: HOST_IDS },
  );
  const percentOver = (durationMs: number) => corePercent(director.process.pid, () => sleep(durationMs));
  try {
    for (const agent of director.agents) await agent.stop();
    await sleep(SETTLE_MS);
    const idlePercent = await percentOver(IDLE_MS);
    report(`${AGENTS} VMs are deployed`);
    for (const [index, agent] of director.agents.entries()) {
      agent.heartbeatIntervalMs = BEAT_INTERVAL_MS;
      agent.heartbeat = stockHeartbeat(index);
      await agent.start();
    }
    await director.configs.updateConfig({ type: "cloud", content: "azs: [{name: z1}]\n" });
    const task = await endedTask(director, await director.deployments.deploy({ manifest: MANIFEST }));
    if (task.state !== TaskState.DONE) throw new Error(`the deploy ended as ${task.state}: ${task.result}`);
    await sleep(SETTLE_MS);
    return {
      warmUpRounds: 0,
      rounds: 3,
      round: async () => {
        const percent = await percentOver(MEASURED_MS);
        await requireHeard(director);
        return { vms_director_cpu: { value: percent - idlePercent, unit: `% of a core for ${AGENTS} agents` } };
      },
      [Symbol.asyncDispose]: () => director.stop(),
    };
  } catch (error) {
    await director.stop();
    throw error;
  }
}

/** Follows a started task, and returns it once it has ended. */
async function endedTask(director: TestDirector, started: { readonly task?: Task | undefined }): Promise<Task> {
  const taskId = started.task?.taskId ?? 0;
  const stream = director.tasks.watchTask({ taskId }, { deadlineMs: DEPLOY_TIMEOUT_MS });
  for await (const { update } of stream) if (update?.$case === "ended") break;
  return director.task(taskId);
}

/** Throws unless each agent sent a heartbeat within the last interval, because silent agents would cost nothing. */
async function requireHeard(director: TestDirector): Promise<void> {
  const sinceMs = Date.now() - 1.1 * BEAT_INTERVAL_MS;
  const instances = await allPages(async (pageToken) => {
    const page = await director.deployments.listInstances({ deployment: "web", agentHealth: true, pageToken });
    return { items: page.instances, nextPageToken: page.nextPageToken };
  });
  const heard = instances.filter(
    ({ agentHealth }) => (agentHealth?.lastHeartbeatTime?.getTime() ?? 0) >= sinceMs,
  ).length;
  if (heard !== AGENTS) throw new Error(`the director has heard ${heard} of ${AGENTS} agents in the last interval`);
}

/**
 * Returns a stock agent's heartbeat. Its uptime grows, because a smaller uptime would mean that the VM had restarted.
 */
function stockHeartbeat(index: number): object {
  const used = { inode_percent: "12", percent: "34" };
  return {
    deployment: "web",
    job: "db",
    index,
    job_state: "running",
    vitals: {
      cpu: { sys: "0.5", user: "2.1", wait: "0.1" },
      disk: { ephemeral: used, persistent: used, system: used },
      load: ["0.10", "0.07", "0.05"],
      mem: { kb: "812340", percent: "20" },
      swap: { kb: "0", percent: "0" },
      uptime: {
        get secs() {
          return 1_000 + Math.floor(performance.now() / 1_000);
        },
      },
    },
    node_id: randomUUID(),
    number_of_processes: 3,
  };
}
