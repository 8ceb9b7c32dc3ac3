import { TaskState, TaskType } from "@diskmesh/api/director";
import { ErrorInfo } from "@diskmesh/api/google-rpc";
import { OnHostSilence } from "@diskmesh/api/registry";
import { InvalidArgumentError, InvalidStateError, NotImplementedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { TestDirector } from "../../testing/test-director.js";

const MIB = 1024 * 1024;

/** decisions.test.ts checks what each request does in each state of a disk. */
describe("dynamic disks over gRPC and NATS", () => {
  let director: TestDirector;
  let first: string;
  let second: string;
  let nextDisk = 0;
  let name: string;

  before(async () => {
    director = await TestDirector.start();
    [first, second] = (await director.deploy("web", 2)) as [string, string];
  });
  after(() => director?.stop());
  beforeEach(() => {
    name = `disk-${++nextDisk}`;
    director.cpi.calls.length = 0;
    for (const agent of director.agents) agent.calls.length = 0;
  });

  const diskOf = async (diskName = name) => (await director.disks.getDynamicDisk({ diskName })).disk;
  const methods = (): string[] => director.cpi.calls.map((call) => call.split(" ")[0] as string);

  it("provide without a disk -> created, attached, and sent to the VM's agent", async () => {
    const task = await director.provide(name, first);
    const disk = await diskOf();
    expect(task).to.include({
      state: TaskState.DONE,
      attempts: 1,
      deployment: "web",
      type: TaskType.PROVIDE_DYNAMIC_DISK,
    });
    expect(task.result).to.equal(`attached disk \`${name}\` to \`${disk?.vmCid}\` in deployment \`web\``);
    expect(disk).to.include({ instanceId: first, sizeBytes: 64 * MIB, diskPoolName: "fast", az: "z1" });
    expect(disk?.diskHint).to.deep.equal({ path: `/memory/${disk?.diskCid}`, lun: "3" });
    expect(methods()).to.deep.equal(["createDisk", "attachDisk"]);
    expect(director.agent("host-1").links.get(disk?.diskCid ?? "")).to.deep.equal(disk?.diskHint);
    expect(director.cpi.disks.get(disk?.diskCid ?? "")?.cloudProperties).to.deep.equal({ pool: "ssd", name });
  });

  it("a disk's life -> the end of each of its tasks is logged with its name and CID", async () => {
    await director.provide(name, first);
    const cid = (await diskOf())?.diskCid ?? "";
    await director.disks.resizeDynamicDisk({ diskName: name, sizeBytes: 1, wait: true });
    await director.detach(name);
    await director.disks.deleteDynamicDisk({ diskName: name, wait: true });
    expect(director.cpi.disks.has(cid)).to.equal(false);
    const lines = director.process.logs
      .split("\n")
      .filter((line) => line.includes("task ended") && line.includes(`"${name}"`));
    const types = ["provide", "resize", "detach", "delete"].map((verb) => `"type":"${verb}_dynamic_disk"`);
    expect(cid).not.to.equal("");
    expect(lines.length).to.equal(types.length);
    for (const [index, type] of types.entries())
      expect(lines[index]).to.include(type).and.include(`"diskCid":"${cid}"`);
  });

  it("provide again -> the CPI is not called, and the agent is notified again", async () => {
    await director.provide(name, first);
    director.cpi.calls.length = 0;
    director.agent("host-1").links.clear();
    expect((await director.provide(name, first)).state).to.equal(TaskState.DONE);
    expect(methods()).to.deep.equal([]);
    expect(director.agent("host-1").links.size).to.equal(1);
  });

  it("provide read-only -> attached so; the other access is refused until the disk is detached", async () => {
    const readOnly = await director.provide(name, first, { readOnly: true });
    const disk = await diskOf();
    expect(readOnly.state).to.equal(TaskState.DONE);
    expect(disk?.readOnly).to.equal(true);
    expect(director.cpi.disks.get(disk?.diskCid ?? "")?.readOnly).to.equal(true);
    expect((await director.provide(name, first)).result).to.contain("as read-only, not as writable: detach it first");
    await director.detach(name);
    expect((await diskOf())?.readOnly).to.equal(false);
    expect((await director.provide(name, first)).state).to.equal(TaskState.DONE);
    expect(director.cpi.disks.get(disk?.diskCid ?? "")?.readOnly).to.equal(false);
  });

  it("a disk of a CPI that rounds sizes up -> has its real size everywhere, and the requested one is no contradiction", async () => {
    director.cpi.diskUnitMib = 48;
    try {
      for (const _ of [1, 2]) expect((await director.provide(name, first)).state).to.equal(TaskState.DONE);
      expect((await diskOf())?.sizeBytes).to.equal(96 * MIB);
      await director.detach(name);
      const { disk } = await director.disks.resizeDynamicDisk({ diskName: name, sizeBytes: 97 * MIB, wait: true });
      expect(disk?.sizeBytes).to.equal(144 * MIB);
    } finally {
      director.cpi.diskUnitMib = 1;
    }
  });

  it("resize of an attached disk -> the CPI's disk and the record have the size; smaller is refused", async () => {
    await director.provide(name, first);
    const resize = (sizeBytes: number) => director.disks.resizeDynamicDisk({ diskName: name, sizeBytes, wait: true });
    director.cpi.resizesAttached = true;
    const { task, disk } = await resize(100 * MIB - 1);
    director.cpi.resizesAttached = false;
    expect(task).to.include({ state: TaskState.DONE, type: TaskType.RESIZE_DYNAMIC_DISK, deployment: "web" });
    expect(disk?.sizeBytes).to.equal(100 * MIB);
    expect(director.cpi.disks.get(disk?.diskCid ?? "")?.sizeMib).to.equal(100);
    director.cpi.calls.length = 0;
    expect((await resize(100 * MIB)).task?.result).to.contain("already has 100 MiB");
    expect((await resize(99 * MIB)).task?.result).to.contain("cannot shrink to 99 MiB");
    expect(methods()).to.deep.equal([]);
    expect((await resize(101 * MIB)).task?.result).to.contain("is attached to");
    expect((await diskOf())?.sizeBytes).to.equal(100 * MIB);
  });

  it("limits of an attached disk -> set at the CPI and recorded; none again", async () => {
    await director.provide(name, first);
    expect((await diskOf())?.limits).to.equal(undefined);
    const limits = { readIops: 100, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: MIB, burstSeconds: 2 };
    const { task, disk } = await director.disks.setDynamicDiskLimits({ diskName: name, limits, wait: true });
    expect(task).to.include({ state: TaskState.DONE, type: TaskType.SET_DYNAMIC_DISK_LIMITS, deployment: "web" });
    expect(disk?.limits).to.deep.equal(limits);
    expect(director.cpi.disks.get(disk?.diskCid ?? "")?.limits).to.deep.equal(limits);
    const hanging = director.disks.setDynamicDiskLimits({
      diskName: name,
      limits: { readBytesPerSecond: 50 },
      wait: true,
    });
    await rejection(hanging, InvalidArgumentError, "limits.read_bytes_per_second is 50");
    const lifted = await director.disks.setDynamicDiskLimits({ diskName: name, wait: true });
    expect(lifted.disk?.limits).to.include({ readIops: 0, writeBytesPerSecond: 0 });
    expect(director.cpi.disks.get(disk?.diskCid ?? "")?.limits).to.equal(undefined);
  });

  it("capacity of a disk type in an az -> the CPI's; a CPI without the method -> NOT_IMPLEMENTED", async () => {
    const asked = { az: "z1", diskPoolName: "fast" };
    const { totalBytes, freeBytes, maxDiskBytes } = await director.disks.getDynamicDiskCapacity(asked);
    expect(totalBytes).to.equal(director.cpi.capacityMib * MIB);
    expect([freeBytes, maxDiskBytes]).to.deep.equal([freeBytes, freeBytes]);
    expect(freeBytes).to.be.within(1, totalBytes);
    director.cpi.lacking.add("getCapacity");
    await rejection(director.disks.getDynamicDiskCapacity(asked), NotImplementedError, "this CPI has no getCapacity");
    director.cpi.lacking.delete("getCapacity");
    await rejection(director.disks.getDynamicDiskCapacity({ ...asked, az: "z9" }), InvalidStateError, "AZ `z9`");
    await rejection(
      director.disks.getDynamicDiskCapacity({ ...asked, diskPoolName: "x" }),
      InvalidStateError,
      "disk type",
    );
  });

  it("provide, detach, provide elsewhere -> the same disk moves", async () => {
    await director.provide(name, first);
    const before = await diskOf();
    expect((await director.detach(name)).result).to.equal(`detached disk \`${before?.diskCid}\``);
    expect(await diskOf()).to.include({ instanceId: "", vmCid: "" });
    expect(director.agent("host-1").links.has(before?.diskCid ?? "")).to.equal(false);
    expect((await director.provide(name, second)).state).to.equal(TaskState.DONE);
    expect(await diskOf()).to.include({ instanceId: second, diskCid: before?.diskCid });
    expect(director.agent("host-2").links.has(before?.diskCid ?? "")).to.equal(true);
  });

  it("detach twice -> already detached; unknown disk -> an error", async () => {
    await director.provide(name, first);
    await director.detach(name);
    const again = await director.detach(name);
    expect(again.state).to.equal(TaskState.DONE);
    expect(again.result).to.contain("was already detached");
    const unknown = await director.detach("nobody");
    expect(unknown).to.include({ state: TaskState.ERROR, result: "disk `nobody` not found" });
    expect(again.error).to.equal(undefined);
    expect(unknown.error).to.include({ code: 5, message: unknown.result });
    const [info] = unknown.error?.details ?? [];
    expect(ErrorInfo.decode(info?.value ?? Buffer.alloc(0))).to.include({ reason: "NOT_FOUND", domain: "diskmesh" });
  });

  it("detach of a disk that the CPI does not have attached -> done", async () => {
    await director.provide(name, first);
    const cid = (await diskOf())?.diskCid ?? "";
    (director.cpi.disks.get(cid) as { vmCid: string }).vmCid = "";
    expect((await director.detach(name)).state).to.equal(TaskState.DONE);
    expect((await diskOf())?.vmCid).to.equal("");
  });

  it("detach with a dead agent -> continues after a bounded time, with a note", async () => {
    await director.provide(name, first);
    await director.agent("host-1").stop();
    try {
      const started = Date.now();
      const task = await director.detach(name);
      expect(Date.now() - started).to.be.below(120_000);
      expect(task.state).to.equal(TaskState.DONE);
      expect(await director.watch(task.taskId)).to.deep.equal([
        "Telling agent: started",
        "Telling agent: failed",
        "Detaching disk: started",
        "Detaching disk: finished",
        "ended TASK_STATE_DONE",
      ]);
    } finally {
      await director.agent("host-1").start();
    }
  });

  it("delete of a disk that the CPI does not know -> deleted", async () => {
    await director.provide(name, first);
    await director.detach(name);
    director.cpi.disks.clear();
    expect((await director.delete(name)).state).to.equal(TaskState.DONE);
  });

  it("metadata -> set once, and again only when it differs", async () => {
    await director.provide(name, first, { metadata: { owner: "ann", tags: ["a"] } });
    const cid = (await diskOf())?.diskCid ?? "";
    const given = { owner: "ann", tags: ["a"] };
    const told = { ...given, director: "diskmesh", deployment: "web", disk_name: name };
    expect(director.cpi.disks.get(cid)?.metadata).to.deep.equal(told);
    expect((await diskOf())?.metadata).to.deep.equal(given);
    director.cpi.calls.length = 0;
    await director.provide(name, first, { metadata: { tags: ["a"], owner: "ann" } });
    await director.provide(name, first);
    expect(methods()).to.deep.equal([]);
    await director.provide(name, first, { metadata: { owner: "bob" } });
    expect(methods()).to.deep.equal(["setDiskMetadata"]);
  });

  it("create, then attach -> like provide; attach of an unknown disk -> an error", async () => {
    const request = {
      diskName: name,
      deployment: "web",
      az: "z1",
      diskPoolName: "fast",
      sizeBytes: MIB,
    };
    const created = await director.disks.createDynamicDisk({ ...request, wait: true });
    expect(created.task?.state).to.equal(TaskState.DONE);
    expect(created.disk).to.include({ vmCid: "", sizeBytes: MIB });
    expect((await director.disks.createDynamicDisk({ ...request, wait: true })).task?.state).to.equal(TaskState.DONE);
    const attach = { instanceId: first, wait: true };
    const attached = await director.disks.attachDynamicDisk({ ...attach, diskName: name });
    expect(attached.task?.state).to.equal(TaskState.DONE);
    expect(attached.disk?.instanceId).to.equal(first);
    const unknown = await director.disks.attachDynamicDisk({ ...attach, diskName: "nobody" });
    expect(unknown.task).to.include({ state: TaskState.ERROR, result: "disk `nobody` not found" });
    expect(methods().filter((method) => method === "createDisk")).to.have.lengthOf(1);
  });

  it("create with on_host_silence -> instead of the disk type's; a CPI that is no fleet cannot fence", async () => {
    const request = { diskName: name, deployment: "web", az: "z1", diskPoolName: "fast", sizeBytes: MIB, wait: true };
    const create = async (onHostSilence: OnHostSilence) =>
      (await director.disks.createDynamicDisk({ ...request, onHostSilence })).task;
    director.cpi.needsVmSpec = true;
    try {
      const refused = await create(OnHostSilence.FENCE);
      expect(refused?.state).to.equal(TaskState.ERROR);
      expect(refused?.result).to.contain("only the fleet CPI can");
      expect(methods()).to.deep.equal([]);
    } finally {
      director.cpi.needsVmSpec = false;
    }
    for (const _ of ["first", "again"]) expect((await create(OnHostSilence.FENCE))?.state).to.equal(TaskState.DONE);
    const cid = (await diskOf())?.diskCid ?? "";
    expect(director.cpi.disks.get(cid)?.cloudProperties).to.include({ pool: "ssd", on_host_silence: "fence" });
    const other = await create(OnHostSilence.KEEP);
    expect(other?.result).to.contain("exists with on_host_silence fence, but the request has keep");
    expect((await create(OnHostSilence.UNSPECIFIED))?.state).to.equal(TaskState.DONE);
  });

  it("create, by a CPI that is no fleet -> near an active VM of the deployment in the az, otherwise an error", async () => {
    const request = { diskName: name, deployment: "web", diskPoolName: "fast", sizeBytes: MIB, wait: true };
    const nearOf = async (az: string) => {
      const { task } = await director.disks.createDynamicDisk({ ...request, az });
      return { task, near: director.cpi.nearVms.at(-1) };
    };
    director.cpi.needsVmSpec = true;
    try {
      const none = (await nearOf("z2")).task;
      expect(none?.state).to.equal(TaskState.ERROR);
      expect(none?.result).to.contain("no active VM found in deployment `web` in AZ `z2`");
      expect(methods()).to.deep.equal([]);
      const { instances } = await director.deployments.listInstances({ deployment: "web" });
      const vm = instances.find(({ instanceId }) => instanceId === first);
      expect((await nearOf("z1")).near).to.equal(vm?.vmCid);
      await director.delete(name);
    } finally {
      director.cpi.needsVmSpec = false;
    }
    expect((await nearOf("z2")).near).to.equal("", "the fleet goes by the az");
  });

  it("create for an instance -> near its VM if that is in the az, also by the fleet; of another deployment -> NOT_FOUND", async () => {
    const request = { diskName: name, deployment: "web", diskPoolName: "fast", sizeBytes: MIB, wait: true };
    const create = async (more: object) => (await director.disks.createDynamicDisk({ ...request, ...more })).task;
    const { instances } = await director.deployments.listInstances({ deployment: "web" });
    const vmOf = (id: string) => instances.find(({ instanceId }) => instanceId === id)?.vmCid;
    for (const needsVmSpec of [true, false])
      for (const instanceId of [first, second]) {
        director.cpi.needsVmSpec = needsVmSpec;
        try {
          expect((await create({ az: "z1", instanceId }))?.state).to.equal(TaskState.DONE);
          expect(director.cpi.nearVms.at(-1)).to.equal(vmOf(instanceId)).and.not.to.equal("");
          expect((await create({ az: "z1", instanceId: first }))?.state).to.equal(TaskState.DONE, "repeated");
          await director.delete(name);
        } finally {
          director.cpi.needsVmSpec = false;
        }
      }
    expect((await create({ az: "z2", instanceId: first }))?.state).to.equal(TaskState.DONE);
    expect(director.cpi.nearVms.at(-1)).to.equal("", "the az is what was asked for");
    for (const instanceId of ["nobody", "web", "host-1"])
      expect((await create({ diskName: "none", az: "z1", instanceId }))?.result).to.equal(
        `instance \`${instanceId}\` not found`,
      );
    for (const wrong of [
      { az: "z1", instanceId: "a/b" },
      { az: "z1", instanceId: "x".repeat(300) },
      { az: "z1", instanceId: first, deployment: "", diskPoolName: "" },
      { hostId: "host-1", instanceId: first, deployment: "", diskPoolName: "" },
    ])
      expect(await rejection(create(wrong)), JSON.stringify(wrong)).to.be.instanceOf(InvalidArgumentError);
  });

  it("no space -> an error without a record, so that a smaller disk can be requested", async () => {
    const { capacityMib } = director.cpi;
    director.cpi.capacityMib = 0;
    try {
      const task = await director.provide(name, first, { sizeBytes: 1024 * MIB });
      expect(task.state).to.equal(TaskState.ERROR);
      expect(task.result).to.contain("there is no space left");
      expect(await director.disks.getDynamicDisk({ diskName: name }).catch((error: Error) => error.message)).to.contain(
        "not found",
      );
    } finally {
      director.cpi.capacityMib = capacityMib;
    }
    expect((await director.provide(name, first)).state).to.equal(TaskState.DONE);
  });

  it("the CPI refuses to attach -> an error; the disk is detached and free for another VM", async () => {
    director.cpi.failNext("attachDisk", new InvalidStateError("the bus is full"));
    const task = await director.provide(name, first);
    expect(task.result).to.contain("the bus is full");
    expect(await diskOf()).to.include({ vmCid: "", instanceId: "" });
    expect((await director.provide(name, second)).state).to.equal(TaskState.DONE);
  });

  it("the agent refuses -> an error with the reason; provide again -> repaired", async () => {
    director.agent("host-1").failures.push(new Error("no such export"));
    const task = await director.provide(name, first);
    expect(task.state).to.equal(TaskState.ERROR);
    expect(task.result).to.contain("but the vm's agent was not notified").and.to.contain("no such export");
    expect((await diskOf())?.instanceId).to.equal(first);
    director.cpi.calls.length = 0;
    expect((await director.provide(name, first)).state).to.equal(TaskState.DONE);
    expect(methods()).to.deep.equal([]);
  });

  it("NATS restarts during a provide -> the agent is notified", async () => {
    const gate = director.cpi.gate("attachDisk", "after");
    const providing = director.provide(name, first);
    await gate.reached;
    await director.nats.restart();
    gate.release();
    const task = await providing;
    // The director may need a few seconds to reconnect to NATS, so one repetition is allowed.
    if (task.state !== TaskState.DONE) expect((await director.provide(name, first)).state).to.equal(TaskState.DONE);
    expect(director.agent("host-1").links.has((await diskOf())?.diskCid ?? "")).to.equal(true);
  });

  it("unknown instance or pool -> an error that names it", async () => {
    expect((await director.provide(name, "nobody")).result).to.equal("instance `nobody` not found");
    const task = await director.provide(name, first, { diskPoolName: "gold" });
    expect(task.result).to.contain("could not find disk type `gold`: the disk_types are `fast`, `slow`");
  });

  it("many requests at once for a disk name -> one disk, and each task ends as expected", async () => {
    const before = director.cpi.disks.size;
    const tasks = await Promise.all([first, second, first, second, first].map((id) => director.provide(name, id)));
    const done = tasks.filter((task) => task.state === TaskState.DONE);
    expect([2, 3]).to.include(done.length);
    for (const task of tasks) {
      if (task.state !== TaskState.DONE) expect(task.result).to.contain("different vm");
    }
    expect(director.cpi.disks.size).to.equal(before + 1);
    expect((await director.locks.listLocks({})).locks).to.deep.equal([]);
  });

  it("list -> sorted by name, in pages, filtered by deployment or instance", async () => {
    const all = await director.disks.listDynamicDisks({});
    const names: string[] = [];
    for (let pageToken = ""; ; ) {
      const page = await director.disks.listDynamicDisks({ deployment: "web", pageSize: 3, pageToken });
      expect(page.disks.length).to.be.at.most(3);
      names.push(...page.disks.map((disk) => disk.diskName));
      pageToken = page.nextPageToken;
      if (pageToken === "") break;
    }
    expect(names).to.deep.equal(all.disks.map((disk) => disk.diskName));
    expect(names).to.deep.equal([...names].sort());
    expect((await director.disks.listDynamicDisks({ deployment: "ci" })).disks).to.deep.equal([]);
    await director.provide(name, first);
    const ofInstance = await director.disks.listDynamicDisks({ instanceId: first });
    expect(ofInstance.disks.map((disk) => disk.diskName)).to.include(name);
    expect(new Set(ofInstance.disks.map((disk) => disk.instanceId))).to.deep.equal(new Set([first]));
    const ofOther = await director.disks.listDynamicDisks({ instanceId: second });
    expect(ofOther.disks.map((disk) => disk.diskName)).not.to.include(name);
  });
});
