import { TaskOutputType, TaskState } from "@diskmesh/api/director";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { FileFleet } from "./file-fleet.js";

describe("a director with two dispatchers", function () {
  this.timeout(600_000);
  let fleet: FileFleet;
  before(async function () {
    leaveToVerify(this);
    fleet = await FileFleet.start({ directors: ["director"] });
    const { task } = await fleet.deploy("base", 1, true);
    expect(task?.state, task?.result).to.equal(TaskState.DONE);
  });
  after(() => fleet?.[Symbol.asyncDispose]());

  const create = async (diskName: string) => {
    const wanted = { diskName, deployment: "base", az: "z1", diskPoolName: "fast", sizeBytes: 1, wait: true };
    const { task } = await fleet.mesh.clients.disks.createDynamicDisk(wanted, { deadlineMs: 120_000 });
    expect(task?.state, task?.result).to.equal(TaskState.DONE);
    return (await fleet.mesh.clients.disks.getDynamicDisk({ diskName })).disk?.diskCid ?? "";
  };
  /** Deletes a disk, and resolves when its CPI call is held. */
  const deleting = async (diskName: string) => {
    const diskCid = await create(diskName);
    const call = `delete_disk ${diskCid}`;
    const held = fleet.cloud.hold(call);
    const { task } = await fleet.mesh.clients.disks.deleteDynamicDisk({ diskName });
    await eventually(() => expect(fleet.cloud.begun()).to.include(call));
    const timesBegun = () => fleet.cloud.begun().filter((one) => one === call).length;
    return { taskId: task?.taskId ?? 0, held, timesBegun, pid: fleet.cloud.processOn(diskCid) };
  };
  const isHeldUp = async (taskId: number) => {
    const { lines } = await fleet.mesh.clients.tasks.getTaskOutput({ taskId, type: TaskOutputType.DEBUG });
    expect(lines.join("\n")).to.include("may still run deleteDisk");
  };
  const ended = async (taskId: number) => {
    const { task } = await fleet.mesh.clients.tasks.getTask({ taskId });
    expect(task?.state, task?.result).to.equal(TaskState.DONE);
  };

  it("one dies: the other runs all calls, but repeats its calls only once they have ended, also under the next director", async () => {
    const { held, taskId, timesBegun, pid } = await deleting("a");
    const [first] = fleet.mesh.all("cpi-dispatcher");
    await first?.kill();
    await create("b");
    await fleet.mesh.process("director").restart();
    await create("c");
    await eventually(() => isHeldUp(taskId));
    process.kill(pid, 0);
    expect(timesBegun()).to.equal(1);
    await first?.start();
    await eventually(() => expect(timesBegun()).to.equal(2));
    held.release();
    await eventually(() => ended(taskId));
    expect(fleet.cloud.violations()).to.deep.equal([]);
    expect(fleet.cloud.disks().size).to.equal(2);
  });

  it("one is removed from the config: its calls are repeated", async () => {
    const { held, taskId, timesBegun, pid } = await deleting("d");
    await fleet.mesh.process("dispatcher-1").kill();
    await fleet.mesh.process("director").restart();
    await eventually(() => isHeldUp(taskId));
    expect(timesBegun()).to.equal(1);
    // Simulates the power loss of the dispatcher's machine.
    process.kill(-pid, "SIGKILL");
    held.release();
    const director = fleet.mesh.process("director");
    await director.restart({ ...director.config, dispatcher: { address: fleet.mesh.address("dispatcher-2") } });
    await eventually(() => ended(taskId));
    expect(timesBegun()).to.equal(2);
    expect(fleet.cloud.violations()).to.deep.equal([]);
  });
});
