import { TaskState } from "@diskmesh/api/director";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { TakeoverMesh } from "./takeover-mesh.js";

const PATIENCE = { timeoutMs: 120_000 };

describe("a director with two dispatchers", function () {
  this.timeout(600_000);
  let mesh: TakeoverMesh;
  before(async function () {
    leaveToVerify(this);
    mesh = await TakeoverMesh.start({ directors: ["director"] });
    const { task } = await mesh.deploy("base", 1, true);
    expect(task?.state, task?.result).to.equal(TaskState.DONE);
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const create = async (diskName: string) => {
    const wanted = { diskName, deployment: "base", az: "z1", diskPoolName: "fast", sizeBytes: 1, wait: true };
    const { task } = await mesh.clients.disks.createDisk(wanted, { deadlineMs: 120_000 });
    expect(task?.state, task?.result).to.equal(TaskState.DONE);
    return (await mesh.clients.disks.getDisk({ diskName })).disk?.diskCid ?? "";
  };
  /** Its CPI call is under way, and held there. */
  const deleting = async (diskName: string) => {
    const diskCid = await create(diskName);
    const call = `delete_disk ${diskCid}`;
    const held = mesh.cloud.hold(call);
    const { task } = await mesh.clients.disks.deleteDisk({ diskName });
    await eventually(() => expect(mesh.cloud.begun()).to.include(call), PATIENCE);
    const timesBegun = () => mesh.cloud.begun().filter((one) => one === call).length;
    return { taskId: task?.taskId ?? 0, held, timesBegun, pid: mesh.cloud.processOn(diskCid) };
  };
  const isHeldUp = async (taskId: number) => {
    const { lines } = await mesh.clients.tasks.getTaskOutput({ taskId, type: "debug" });
    expect(lines.join("\n")).to.include("may still run deleteDisk");
  };
  const ended = async (taskId: number) => {
    const { task } = await mesh.clients.tasks.getTask({ taskId });
    expect(task?.state, task?.result).to.equal(TaskState.DONE);
  };

  it("one dies -> the other does all else, but what it ran only once that has ended; the next director keeps to it", async () => {
    const { held, taskId, timesBegun, pid } = await deleting("a");
    const [first] = mesh.dispatchers;
    await first?.kill();
    await create("b");
    await mesh.process("director").restart();
    await create("c");
    await eventually(() => isHeldUp(taskId), PATIENCE);
    process.kill(pid, 0);
    expect(timesBegun()).to.equal(1);
    await first?.start();
    await eventually(() => expect(timesBegun()).to.equal(2), PATIENCE);
    held.release();
    await eventually(() => ended(taskId), PATIENCE);
    expect(mesh.cloud.violations()).to.deep.equal([]);
    expect(mesh.cloud.disks().size).to.equal(2);
  });

  it("one is gone for good, and taken out of the config -> what it ran is repeated", async () => {
    const { held, taskId, timesBegun, pid } = await deleting("d");
    await mesh.process("dispatcher-1").kill();
    await mesh.process("director").restart();
    await eventually(() => isHeldUp(taskId), PATIENCE);
    expect(timesBegun()).to.equal(1);
    // Its machine is off.
    process.kill(-pid, "SIGKILL");
    held.release();
    await mesh.process("director").restart(mesh.configOf("director", ["dispatcher-2"]));
    await eventually(() => ended(taskId), PATIENCE);
    expect(timesBegun()).to.equal(2);
    expect(mesh.cloud.violations()).to.deep.equal([]);
  });
});
