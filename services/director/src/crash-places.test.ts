import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type CallMethodRequest, DriverState, type Task, TaskState, TaskType } from "@diskmesh/api/director";
import { hostOfCid } from "@diskmesh/cpi";
import { OWN_USER, SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { eventually, freePort, isQuickRun, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { CrashPlaces } from "./testing/crash-places.js";
import { crashAtEachPlace } from "./testing/crash-run.js";
import { httpUsers } from "./testing/http-director.js";
import { CRASHING_MAIN, TestDirector } from "./testing/test-director.js";
import { TestNode } from "./testing/test-node.js";

/** Generous timeouts: an agent that misses a timeout on a busy machine would be counted as left behind. */
const PATIENT = {
  agents: { requestTimeoutMs: 20_000, attachTimeoutMs: 20_000, detachTimeoutMs: 20_000 },
  // Longer than the longest run, so that no log is deleted by age.
  agentLogs: { keptMs: 24 * 3_600_000 },
};

/**
 * `npm run crash-test` runs all jobs with both kinds of CPIs and crashes at all of their places. Other runs skip places
 * that earlier jobs already visited.
 */
const isWhole = process.env.DISKMESH_CRASH_PLACES === "all";
/** Where all tests wait for it, it goes to each so many of a job's places. */
const EACH = isQuickRun ? 4 : 1;

const LIVE = [TaskState.QUEUED, TaskState.PROCESSING, TaskState.CANCELLING];

interface World {
  readonly director: TestDirector;
  /** An instance of deployment "base" that has a VM. */
  readonly instanceId: string;
  readonly diskName: string;
  /** Number of times that the job was requested. */
  asked: number;
}

type CallTarget = NonNullable<CallMethodRequest["target"]>["target"];

interface CrashJob {
  readonly name: string;
  /** Creates the state in which the job starts. */
  readonly prepare?: (world: World) => Promise<unknown>;
  /** Runs only in `npm run crash-test`. */
  readonly isForWhole?: boolean;
  /** Runs in the quick test run, too. */
  readonly isQuick?: boolean;
  /** Requests the job. Called again after the director was killed. */
  readonly ask: (world: World) => Promise<Task | undefined>;
}

const vmOf = (ram: number) =>
  `name: web\ninstance_groups:\n- {name: db, instances: 1, azs: [z1], persistent_disk: 64, env: {ram: ${ram}}}\n`;
const deploy = async ({ director }: World, text: string) =>
  (await director.deployments.deploy({ manifest: text, wait: true })).task;
const WEB = { deployment: "web" };
const provide = ({ director, diskName, instanceId }: World) =>
  director.provide(diskName, instanceId, { metadata: { owner: "ann" } });
const onHost = async ({ director, diskName }: World) => {
  const request = { diskName, hostId: HOST, sizeBytes: 1, metadata: { owner: "ann" }, wait: true };
  return (await director.disks.provideDynamicDisk(request)).task;
};
const HOST = "h1";
const NODE = "host-1";
const callVendor = async ({ director }: World, target: CallTarget, method: string, args: object) => {
  const request = { target: { target }, method, args: { ...args }, wait: true };
  const { outcome } = await director.vendors.callMethod(request);
  return outcome?.$case === "task" ? outcome.value : undefined;
};

/** The director's driver appends a line to this file in each run of its method. */
const notesOf = ({ folder }: TestDirector) => join(folder, "notes");

const JOBS: readonly CrashJob[] = [
  { name: "provide", isQuick: true, ask: provide },
  {
    name: "create",
    ask: async ({ director, diskName }) => {
      const wanted = { diskName, deployment: "base", az: "z1", diskPoolName: "fast", sizeBytes: 1, wait: true };
      return (await director.disks.createDynamicDisk(wanted)).task;
    },
  },
  {
    name: "attach",
    prepare: async (world) => {
      await provide(world);
      await world.director.detach(world.diskName);
    },
    ask: async ({ director, diskName, instanceId }) =>
      (await director.disks.attachDynamicDisk({ diskName, instanceId, wait: true })).task,
  },
  {
    name: "resize",
    prepare: async (world) => {
      await provide(world);
      await world.director.detach(world.diskName);
    },
    ask: async ({ director, diskName }) =>
      (await director.disks.resizeDynamicDisk({ diskName, sizeBytes: 2 ** 30, wait: true })).task,
  },
  {
    name: "limit",
    prepare: provide,
    ask: async ({ director, diskName }) =>
      (await director.disks.setDynamicDiskLimits({ diskName, limits: { readIops: 9 }, wait: true })).task,
  },
  { name: "detach", prepare: provide, ask: ({ director, diskName }) => director.detach(diskName) },
  {
    name: "delete",
    prepare: async (world) => {
      await provide(world);
      await world.director.detach(world.diskName);
    },
    ask: ({ director, diskName }) => director.delete(diskName),
  },
  { name: "provide on a host", ask: onHost },
  {
    name: "attach to a host",
    prepare: async (world) => {
      await onHost(world);
      await world.director.detach(world.diskName);
    },
    ask: async ({ director, diskName }) =>
      (await director.disks.attachDynamicDisk({ diskName, hostId: HOST, wait: true })).task,
  },
  { name: "detach from a host", prepare: onHost, ask: ({ director, diskName }) => director.detach(diskName) },
  { name: "deploy", ask: (world) => deploy(world, vmOf(1)) },
  { name: "recreate by a deploy", prepare: (world) => deploy(world, vmOf(1)), ask: (world) => deploy(world, vmOf(2)) },
  {
    name: "stop",
    prepare: (world) => deploy(world, vmOf(1)),
    ask: async ({ director }) => (await director.lifecycle.stop({ selection: WEB, wait: true })).task,
  },
  {
    name: "stop, and delete the VM",
    prepare: (world) => deploy(world, vmOf(1)),
    ask: async ({ director }) => (await director.lifecycle.stop({ selection: WEB, hard: true, wait: true })).task,
  },
  {
    name: "start without a VM",
    prepare: async (world) => {
      await deploy(world, vmOf(1));
      await world.director.lifecycle.stop({ selection: WEB, hard: true, wait: true });
    },
    ask: async ({ director }) => (await director.lifecycle.start({ selection: WEB, wait: true })).task,
  },
  {
    name: "restart",
    prepare: (world) => deploy(world, vmOf(1)),
    ask: async ({ director }) => (await director.lifecycle.restart({ selection: WEB, wait: true })).task,
  },
  {
    name: "recreate",
    prepare: (world) => deploy(world, vmOf(1)),
    ask: async ({ director }) => (await director.lifecycle.recreate({ selection: WEB, wait: true })).task,
  },
  {
    name: "delete deployment",
    prepare: (world) => deploy(world, vmOf(1)),
    ask: async ({ director }) => (await director.deployments.deleteDeployment({ deployment: "web", wait: true })).task,
  },
  {
    name: "delete a VM",
    isForWhole: true,
    prepare: (world) => deploy(world, vmOf(1)),
    ask: async ({ director }) => {
      // After a crash the director may already have deleted the VM's record.
      const { instances } = await director.deployments.listInstances({ deployment: "web" });
      const vmCid = instances[0]?.vmCid || "vm-deleted";
      return (await director.vms.deleteVm({ vmCid, wait: true })).task;
    },
  },
  {
    name: "orphan a disk",
    prepare: async (world) => {
      await deploy(world, vmOf(1));
      await world.director.lifecycle.stop({ selection: WEB, wait: true });
    },
    ask: async ({ director }) => {
      const { disks } = await director.deployments.listPersistentDisks({ deployment: "web" });
      return (await director.deployments.orphanPersistentDisk({ diskCid: disks[0]?.diskCid ?? "", wait: true })).task;
    },
  },
  {
    name: "scan",
    isForWhole: true,
    ask: async ({ director }) => (await director.problems.scanDeployment({ deployment: "base", wait: true })).task,
  },
  {
    name: "recreate by a check",
    isForWhole: true,
    prepare: async (world) => {
      await deploy(world, vmOf(1));
      const { director } = world;
      const { instances } = await director.deployments.listInstances({ deployment: "web" });
      for (const { vmCid } of instances) director.cpi.vms.delete(vmCid);
      for (const disk of director.cpi.disks.values()) if (!director.cpi.vms.has(disk.vmCid)) disk.vmCid = "";
      await director.problems.scanDeployment({ deployment: "web", wait: true });
    },
    ask: async ({ director }) =>
      (await director.problems.resolveProblems({ deployment: "web", auto: true, wait: true })).task,
  },
  {
    name: "fetch logs",
    ask: async ({ director }) => (await director.vms.fetchLogs({ selection: { deployment: "base" }, wait: true })).task,
  },
  {
    name: "a vendor's method of a node",
    ask: (world) => callVendor(world, { $case: "nodeId", value: NODE }, "turn_async", { at: 1 }),
  },
  {
    name: "a vendor's method of a driver",
    ask: async (world) => {
      // The driver stops with the director and starts again with it.
      await eventually(async () => {
        const { drivers } = await world.director.vendors.listDrivers({});
        return drivers.every(({ state }) => state === DriverState.RUNNING);
      });
      const line = `${world.diskName}, ${++world.asked}`;
      return callVendor(world, { $case: "driver", value: "sample" }, "d_note", { file: notesOf(world.director), line });
    },
  },
];

for (const findsByToken of isWhole ? [true, false] : [true])
  describe(`a director killed at each crash point of a job, with a CPI ${findsByToken ? "with" : "without"} lookup by token`, function () {
    this.timeout(isWhole ? 3_600_000 : 600_000);
    let director: TestDirector;
    let node: TestNode | undefined;
    let places: CrashPlaces;
    let instanceId: string;
    let disks = 0;
    const seen = new Set<string>();

    before(async () => {
      const registryPort = await freePort();
      const vendors = {
        nodes: { registries: [{ address: `127.0.0.1:${registryPort}` }] },
        drivers: [{ package: SAMPLE_DRIVER, ...OWN_USER }],
      };
      // HTTPS API to which agents upload their logs.
      const http = { listen: { port: await freePort() }, users: await httpUsers({ admin: ["bosh.admin"] }) };
      director = await TestDirector.start(
        { agents: { readyTimeoutMs: 20_000 }, http, ...vendors, tuning: PATIENT },
        { mainFile: CRASHING_MAIN },
      );
      node = await TestNode.start(director.certs, NODE, registryPort);
      places = new CrashPlaces(director.folder);
      for (const agent of director.agents) {
        await agent.stop();
        agent.hasJobs = true;
        await agent.start();
      }
      director.cpi.findsByToken = findsByToken;
      director.cpi.capacityMib = 1_000_000;
      director.cpi.addHost(HOST, "z1");
      [instanceId] = (await director.deploy("base", 1)) as [string];
    });
    after(async () => {
      await node?.close();
      await director?.stop();
    });

    const jobs = JOBS.filter(({ isForWhole = false }) => isWhole || !isForWhole);
    for (const [number, job] of jobs.entries())
      it(`${job.name} -> repeated after the kill, it is done; nothing is lost, duplicated or left behind`, async function () {
        if (!job.isQuick) leaveToVerify(this);
        const visits = (place: string, at: number, count: number): boolean => {
          if ((at - 1) % EACH !== 0 || (!isWhole && seen.has(place))) return false;
          seen.add(place);
          if (isWhole) tell(`job ${number + 1} of ${jobs.length}, ${job.name}: ${at} of ${count}, ${place}`);
          return true;
        };
        const { name, ask } = job;
        const round = { name, begin: () => newWorld(job), ask, check: expectWhole, clear: cleared };
        await crashAtEachPlace({ director, places, visits }, round);
      });

    async function newWorld(job: CrashJob): Promise<World> {
      const world = { director, instanceId, diskName: `disk-${++disks}`, asked: 0 };
      await job.prepare?.(world);
      return world;
    }

    async function cleared({ diskName }: World): Promise<void> {
      await director.deployments.deleteDeployment({ deployment: "web", wait: true });
      await director.disks.detachDynamicDisk({ diskName, wait: true });
      await director.delete(diskName);
      const { possibleOrphans } = await director.deployments.listPossibleOrphans({});
      for (const { token } of possibleOrphans) {
        for (const vmCid of director.cpi.vms.keys()) if (vmCid.includes(token)) director.cpi.vms.delete(vmCid);
        for (const cid of director.cpi.disks.keys()) if (cid.includes(token)) director.cpi.disks.delete(cid);
        await director.deployments.forgetPossibleOrphan({ token });
      }
      for (const { diskCid } of (await director.deployments.listPersistentDisks({ orphaned: true })).disks)
        await director.deployments.deleteOrphanedDisk({ diskCid, wait: true });
    }

    /**
     * Expects that the CPI has exactly the recorded objects or listed possible orphans, and that each disk is attached
     * where the record says.
     */
    async function expectWhole(at: string): Promise<void> {
      const { cpi } = director;
      // The resumed task may still run after the repeated task and find nothing to do.
      await eventually(async () => expect((await director.tasks.listTasks({ states: LIVE })).tasks, at).to.be.empty);
      await eventually(async () => expect((await director.locks.listLocks({})).locks, at).to.be.empty);
      await expectRunOnce(at);
      await expectLogsOfDone(at);
      const { deployments } = await director.deployments.listDeployments({});
      const listed = await Promise.all(
        deployments.map(({ name }) => director.deployments.listInstances({ deployment: name })),
      );
      const instances = listed.flatMap((page) => page.instances);
      const dynamic = (await director.disks.listDynamicDisks({})).disks;
      const persistent = (await director.deployments.listPersistentDisks({})).disks;
      const tokens = (await director.deployments.listPossibleOrphans({})).possibleOrphans.map(({ token }) => token);
      const isListed = (cid: string) => tokens.some((token) => cid.includes(token));
      expect(findsByToken ? tokens : [], at).to.deep.equal([]);
      const vmCids = instances.map(({ vmCid }) => vmCid).filter((vmCid) => vmCid !== "");
      expect(
        [...cpi.vms.values()].map(({ vmCid }) => vmCid).filter((cid) => !isListed(cid) && hostOfCid(cid) === undefined),
        `VMs: ${at}`,
      ).to.have.members(vmCids);
      const recorded = [...dynamic, ...persistent].map(({ diskCid, vmCid }) => ({ diskCid, vmCid }));
      const there = [...cpi.disks.values()].map(({ diskCid, vmCid }) => ({ diskCid, vmCid }));
      expect(
        there.filter(({ diskCid }) => !isListed(diskCid)),
        `disks: ${at}`,
      ).to.have.deep.members(recorded);
      for (const { diskCid, vmCid } of dynamic) {
        const { agentId = "" } = instances.find((instance) => instance.vmCid === vmCid) ?? {};
        for (const agent of director.agents)
          expect(agent.links.has(diskCid), `link of ${agent.agentId}: ${at}`).to.equal(agent.agentId === agentId);
      }
    }

    /** Expects a log file for each finished fetch_logs task and no file of an interrupted task. */
    async function expectLogsOfDone(at: string): Promise<void> {
      const { tasks } = await director.tasks.listTasks({ pageSize: 1_000 });
      const done = tasks.filter(({ type, state }) => type === TaskType.FETCH_LOGS && state === TaskState.DONE);
      const folder = join(director.folder, "agent-logs");
      const files = existsSync(folder) ? readdirSync(folder) : [];
      expect(files, `logs: ${at}`).to.have.members(done.map(({ taskId }) => `${taskId}.tgz`));
    }

    /**
     * Checks that each vendor method ran once. The node's driver counts its calls in memory; the director's driver,
     * which stops with the director, writes them to a file.
     */
    async function expectRunOnce(at: string): Promise<void> {
      const { tasks } = await director.tasks.listTasks({ pageSize: 1_000 });
      const of = (method: string) => tasks.filter(({ description }) => description.includes(method));
      const turns = of("turn_async").map(({ result }) => (JSON.parse(result) as { turn: number }).turn);
      const once = turns.map((_, index) => index + 1);
      expect(turns, `runs of the method: ${at}`).to.have.members(once);
      const notes = existsSync(notesOf(director)) ? readFileSync(notesOf(director), "utf8").split("\n") : [];
      expect(notes, `runs of the director's own: ${at}`).to.deep.equal([...new Set(notes)]);
      const done = of("d_note").filter(({ state }) => state === TaskState.DONE);
      expect(notes.length, `those that are done, and no other: ${at}`).to.be.at.least(done.length);
    }
  });

/** Prints progress with the elapsed time, for long runs. */
function tell(text: string): void {
  console.log(`${Math.round(performance.now() / 1_000)} s: ${text}`);
}
