import { appendFileSync, copyFileSync } from "node:fs";
import { join } from "node:path";
import {
  AgentCertificateState,
  ResurrectionServiceDefinition,
  type Task,
  TaskState,
  TaskType,
} from "@diskmesh/api/director";
import { UnavailableError } from "@diskmesh/domain";
import { createAuthority } from "@diskmesh/pki";
import { type Client, createClient } from "@diskmesh/rpc";
import { eventually, leaveToVerify, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { CrashPlaces } from "./testing/crash-places.js";
import { type CrashedJob, crashAtEachPlace } from "./testing/crash-run.js";
import type { TestAgent } from "./testing/test-agent.js";
import { CRASHING_MAIN, TestDirector } from "./testing/test-director.js";
import { type VmAgent, withAgents } from "./testing/vm-agents.js";

const PATIENCE = { timeoutMs: 120_000 };
const POLL_MS = 50;
const BEAT_INTERVAL_MS = 500;
/** Longer than a heartbeat is delayed on a busy machine. */
const SILENT_AFTER_MS = 4_000;
const LONG_UPTIME_S = 1_000_000;
const WEB = "web";

interface World {
  /** Id of the last task before the job. */
  readonly sinceTaskId: number;
  /** Causes the task. Called once per run, on the director that leads at that time. */
  readonly cause: () => Promise<unknown>;
  hasCause: boolean;
}

async function lastTaskOf(director: TestDirector): Promise<number> {
  const [last] = (await director.tasks.listTasks({ pageSize: 1 })).tasks;
  return last?.taskId ?? 0;
}

/** Returns the first ended task of the type that the director started by itself. Throws when the director is killed. */
async function ownTask(
  director: TestDirector,
  type: TaskType,
  world: World,
  meanwhile: () => Promise<unknown> = async () => {},
): Promise<Task> {
  if (!world.hasCause) {
    world.hasCause = true;
    await world.cause();
  }
  for (const untilMs = performance.now() + PATIENCE.timeoutMs; performance.now() < untilMs; ) {
    if (director.process.exit !== undefined) throw new Error("the director was killed");
    await meanwhile();
    // The client needs a moment to reconnect to a restarted director.
    const { tasks } = await director.tasks.listTasks({ pageSize: 100 }).catch((error: unknown) => {
      if (!(error instanceof UnavailableError)) throw error;
      return { tasks: [] };
    });
    const task = tasks.filter((each) => each.type === type && each.taskId > world.sinceTaskId).at(-1);
    if (task !== undefined && task.endTime !== undefined) return task;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new Error(`the director began no ${type}`);
}

async function nothingGoesOn(director: TestDirector, at: string): Promise<void> {
  const states = [TaskState.QUEUED, TaskState.PROCESSING, TaskState.CANCELLING];
  await eventually(async () => expect((await director.tasks.listTasks({ states })).tasks, at).to.be.empty, PATIENCE);
  await eventually(async () => expect((await director.locks.listLocks({})).locks, at).to.be.empty, PATIENCE);
}

/** Crash places that earlier jobs already visited are skipped, except in `npm run crash-test`. */
const seen = new Set<string>();
const visits = (place: string): boolean => {
  const isNew = !seen.has(place);
  seen.add(place);
  return isNew || process.env.DISKMESH_CRASH_PLACES === "all";
};

describe("a director killed at each crash point of a task that it started itself", function () {
  this.timeout(1_800_000);

  describe("VMs whose agents have the names of their hosts", () => {
    let director: TestDirector;
    let resurrection: Client<typeof ResurrectionServiceDefinition>;

    before(async function () {
      leaveToVerify(this);
      const waits = { requestTimeoutMs: 2_000, attachTimeoutMs: 20_000, detachTimeoutMs: 500 };
      const tuning = {
        agents: { ...waits, lostAfterMs: 1_000, healthRecordIntervalMs: 100 },
        resurrection: { checkIntervalMs: 100, silentAfterMs: SILENT_AFTER_MS, deadAfterMs: 3_600_000 },
      };
      director = await TestDirector.start({ agents: { readyTimeoutMs: 60_000 }, tuning }, { mainFile: CRASHING_MAIN });
      resurrection = createClient(ResurrectionServiceDefinition, {
        address: director.address,
        tls: director.certs.files("operator"),
        serverRole: "director",
        defaultDeadlineMs: 60_000,
      });
      for (const agent of director.agents) {
        agent.heartbeatIntervalMs = BEAT_INTERVAL_MS;
        await saysUptime(agent, LONG_UPTIME_S);
      }
      await director.deploy(WEB, 1);
    });
    after(async () => {
      resurrection?.close();
      await director?.stop();
    });

    const only = async () => {
      const { instances } = await director.deployments.listInstances({ deployment: WEB, agentHealth: true });
      const [instance] = instances;
      if (instance === undefined || instances.length > 1) throw new Error("there is not one instance");
      return instance;
    };

    /** Restarts the agent with this uptime of its VM. */
    async function saysUptime(agent: TestAgent, secs: number): Promise<void> {
      await agent.stop();
      agent.heartbeat = { job_state: "running", vitals: { uptime: { secs } } };
      await agent.start();
    }

    const run = (job: CrashedJob<World>) =>
      crashAtEachPlace({ director, places: new CrashPlaces(director.folder), visits }, job);

    it("recreates a VM -> one VM exists afterwards", async () => {
      const switchTo = (enabled: boolean) =>
        resurrection.updateResurrection({ wanted: { enabled, deployment: "", group: "" } });
      let victim: TestAgent | undefined;
      /** Starts the agent of the new VM once the CPI has created the VM. */
      const startVictim = async () => {
        const [agent, isMade] = [victim, director.cpi.vms.size > 0];
        if (!isMade || agent === undefined) return;
        victim = undefined;
        await agent.start();
      };
      await run({
        name: "resurrect",
        begin: async () => {
          await switchTo(true);
          const sinceTaskId = await lastTaskOf(director);
          const { agentId, vmCid } = await only();
          const cause = async () => {
            victim = director.agent(agentId);
            await victim.stop();
            director.cpi.vms.delete(vmCid);
          };
          return { sinceTaskId, cause, hasCause: false };
        },
        ask: (world) => ownTask(director, TaskType.RESURRECT_INSTANCES, world, startVictim),
        check: async (at) => {
          const isWhole = async () => {
            await startVictim();
            const { vmCid, vmState } = await only();
            expect(vmState, at).to.equal("VM_STATE_RUNNING");
            expect([...director.cpi.vms.keys()], at).to.deep.equal([vmCid]);
          };
          // The first task may run before the director counts the agent as silent, so a later task may have to recreate
          // the VM.
          await eventually(isWhole, PATIENCE);
          await switchTo(false);
          await nothingGoesOn(director, at);
          await isWhole();
          expect((await director.deployments.listPossibleOrphans({})).possibleOrphans, at).to.deep.equal([]);
        },
        clear: startVictim,
      });
    });

    it("sends a restarted agent its disks -> the agent has exactly this link", async () => {
      const { instanceId, agentId } = await only();
      const agent = director.agent(agentId);
      expect((await director.provide("told", instanceId)).state).to.equal(TaskState.DONE);
      const { disk } = await director.disks.getDynamicDisk({ diskName: "told" });
      await run({
        name: "tell",
        begin: async () => {
          await saysUptime(agent, LONG_UPTIME_S);
          await eventually(async () => {
            const { agentHealth } = await only();
            expect(agentHealth?.vitals).to.deep.equal({ uptime: { secs: LONG_UPTIME_S } });
          }, PATIENCE);
          const cause = async () => {
            await agent.stop();
            agent.links.clear();
            await saysUptime(agent, 1);
          };
          return { sinceTaskId: await lastTaskOf(director), cause, hasCause: false };
        },
        ask: (world) => ownTask(director, TaskType.TELL_AGENTS, world),
        check: async (at) => {
          await nothingGoesOn(director, at);
          expect([...agent.links.keys()], at).to.deep.equal([disk?.diskCid]);
        },
        clear: async () => {},
      });
    });
  });

  describe("VMs whose agents have their own certificates", () => {
    let director: TestDirector;
    let agents: VmAgent[] = [];
    let caFile: string;

    before(async function () {
      leaveToVerify(this);
      const files = (await testCertificates()).files("director");
      caFile = join(temporaryFolder(), "ca.pem");
      copyFileSync(files.caFile, caFile);
      const tls = { ...files, caFile };
      director = await TestDirector.start({ tls }, { hostIds: [], mainFile: CRASHING_MAIN, ownCertificates: true });
      agents = await withAgents(director, 2, () => director.deploy(WEB, 2));
    });
    after(async () => {
      await Promise.all(agents.map(({ agent }) => agent.stop()));
      await director?.stop();
    });

    it("renews certificates -> each agent has a valid certificate and its VM", async () => {
      const valid = async (at: string) => {
        const { certificates } = await director.vms.listAgentCertificates({ deployment: WEB });
        const { VALID } = AgentCertificateState;
        expect(
          certificates.map(({ state }) => state),
          at,
        ).to.deep.equal(agents.map(() => VALID));
      };
      const vmCids = [...director.cpi.vms.keys()];
      const job: CrashedJob<World> = {
        name: "renew",
        begin: async () => {
          const { certPem } = await createAuthority({ commonName: "another", validDays: 1 });
          const cause = async () => appendFileSync(caFile, certPem);
          return { sinceTaskId: await lastTaskOf(director), cause, hasCause: false };
        },
        ask: (world) => ownTask(director, TaskType.RENEW_AGENT_CERTIFICATES, world),
        check: async (at) => {
          await eventually(() => valid(at), PATIENCE);
          await nothingGoesOn(director, at);
          expect([...director.cpi.vms.keys()], at).to.deep.equal(vmCids);
        },
        clear: async () => {},
      };
      await crashAtEachPlace({ director, places: new CrashPlaces(director.folder), visits }, job);
    });
  });
});
