import { TaskState } from "@diskmesh/api/director";
import { type Gate, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const CLOUD = "azs: [{name: z1}]\ndisk_types: [{name: fast, disk_size: 1024}]\n";
const MANIFEST =
  "name: web\ninstance_groups:\n- {name: db, instances: 1, azs: [z1], persistent_disk: 64}\n" +
  "update: {canaries: 1, max_in_flight: 1, canary_watch_time: 0-5000, update_watch_time: 0-5000}\n";
const SELECTION = { deployment: "web", group: "db", instance: "0" };

/** A crash point: before the effect of a call to an agent. */
interface Moment {
  readonly text: string;
  readonly gate: () => Gate;
}

/** Kills the director at each agent call of an operation. A first run of the operation finds the calls. */
describe("a director killed while jobs are stopped and started", () => {
  let director: TestDirector;

  before(async function () {
    leaveToVerify(this);
    director = await TestDirector.start({}, { hostIds: ["host-1"] });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
    const agent = director.agent("host-1");
    await agent.stop();
    agent.hasJobs = true;
    await agent.start();
    expect((await director.deployManifest(MANIFEST)).result).to.equal("/deployments/web");
  });
  after(() => director?.stop());

  const operations = {
    stop: () => director.lifecycle.stop({ selection: SELECTION }),
    start: () => director.lifecycle.start({ selection: SELECTION }),
    restart: () => director.lifecycle.restart({ selection: SELECTION }),
  };
  type Operation = keyof typeof operations;

  const run = async (operation: Operation): Promise<void> => {
    const { task } = await operations[operation]();
    const ended = await director.ended(task?.taskId ?? 0);
    expect(ended.state).to.equal(TaskState.DONE, `${operation}: ${ended.result}`);
  };

  /** Runs the operation and returns a crash point for each of its agent calls. */
  const momentsOf = async (operation: Operation): Promise<Moment[]> => {
    const agent = director.agent("host-1");
    agent.calls.length = 0;
    await run(operation);
    return [...new Set(agent.calls)].map((call) => ({ text: call, gate: () => agent.gateOf(call) }));
  };

  const expectWhole = async (operation: Operation): Promise<void> => {
    const [instance, ...others] = (await director.deployments.listInstances({ deployment: "web" })).instances;
    expect(others).to.deep.equal([]);
    const runs = operation !== "stop";
    expect(instance).to.include({
      vmState: "VM_STATE_RUNNING",
      jobsState: runs ? "JOBS_STATE_STARTED" : "JOBS_STATE_STOPPED",
    });
    expect([...director.cpi.vms.keys()]).to.deep.equal([instance?.vmCid]);
    const { disks } = await director.deployments.listPersistentDisks({ deployment: "web" });
    expect(disks.map(({ vmCid, orphanedAt }) => [vmCid, orphanedAt])).to.deep.equal([[instance?.vmCid, undefined]]);
    expect([...director.cpi.disks.values()].map(({ diskCid, vmCid }) => [diskCid, vmCid])).to.deep.equal([
      [disks[0]?.diskCid, instance?.vmCid],
    ]);
    expect(director.agent("host-1").mountedCid).to.equal(disks[0]?.diskCid);
    expect(director.agent("host-1").jobState).to.equal(runs ? "running" : "stopped");
    expect((await director.locks.listLocks({})).locks).to.deep.equal([]);
  };

  // Rows: the tested operation, and the operation that runs before so that the tested operation has everything to do.
  const BEFORE: readonly (readonly [Operation, Operation])[] = [
    ["stop", "start"],
    ["restart", "start"],
  ];
  for (const [operation, before] of BEFORE)
    it(`${operation} -> finished by the next director; repeated -> done; one VM with its disk`, async () => {
      await run(before);
      const moments = await momentsOf(operation);
      expect(moments.length).to.be.at.least(4);
      for (const { text, gate } of moments) {
        await run(before);
        const stopped = gate();
        const { task } = await operations[operation]();
        await stopped.reached;
        await director.process.kill();
        await director.process.start();
        stopped.release();
        const ended = await director.ended(task?.taskId ?? 0);
        expect(ended, `killed ${text}: ${ended.result}`).to.include({ state: TaskState.DONE, attempts: 2 });
        await expectWhole(operation);
        await run(operation);
        await expectWhole(operation);
      }
    });
});
