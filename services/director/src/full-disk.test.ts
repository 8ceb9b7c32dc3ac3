import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { type Task, TaskState } from "@diskmesh/api/director";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify, SmallDisk, skipBecause, stemcellFile, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { CLOUD_CONFIG, TestDirector } from "./testing/test-director.js";

const SIZE_BYTES = 16 * 1024 * 1024;

describe("a director with a full disk", () => {
  let disk: SmallDisk;
  let director: TestDirector;

  before(function () {
    using probe = SmallDisk.mount(SIZE_BYTES);
    if (probe === undefined) skipBecause(this, "no file system can be mounted here");
  });
  beforeEach(() => {
    disk = SmallDisk.mount(SIZE_BYTES) as SmallDisk;
  });
  afterEach(async () => {
    await director?.stop();
    disk?.[Symbol.dispose]();
  });

  it("reports it, keeps running, can be read, keeps all acknowledged changes, and serves again once there is space", async () => {
    director = await TestDirector.start({ tablet: { storage: disk.folder } });
    let acknowledged = 0;
    const update = async () => {
      const content = `${CLOUD_CONFIG}# ${acknowledged + 1} ${"x".repeat(200_000)}\n`;
      await director.configs.updateConfig({ type: "cloud", content });
      acknowledged++;
    };
    await update();

    disk.fill();
    await rejection(
      forever(update),
      UnavailableError,
      `the disk that holds ${disk.folder}/director is full: free space there`,
    );
    await eventually(() => expect(director.process.logs).to.contain("leader election failed"));
    expect(director.process.exit).to.equal(undefined);
    expect((await eventually(() => director.configs.listConfigs(LATEST))).configs).to.have.length(1);

    disk.makeRoom();
    const { configs } = await eventually(() => director.configs.listConfigs(LATEST));
    const kept = Number(/^# (\d+)/m.exec(configs[0]?.content ?? "")?.[1]);
    // The last update reported an error but may have been stored.
    expect(kept).to.be.within(acknowledged, acknowledged + 1);
    await eventually(update);
    expect((await director.deploy("web", 1)).length).to.equal(1);
    expect(director.process.exit).to.equal(undefined);
    expect(director.process.logs).not.to.contain("backup");
  });

  it("keeps task outputs and task ends in memory until there is space", async function () {
    leaveToVerify(this);
    const storage = join(temporaryFolder(), "state");
    mkdirSync(storage);
    mkdirSync(join(disk.folder, "events"));
    symlinkSync(join(disk.folder, "events"), join(storage, "director-events"));
    director = await TestDirector.start({ tablet: { storage } });
    const [instanceId] = await director.deploy("web", 1);
    const usual = await director.watch((await director.provide("usual", instanceId as string)).taskId);
    expect(usual.length).to.be.above(4);

    disk.fill();
    const tasks: Promise<Task>[] = [];
    await eventually(() => {
      tasks.push(director.provide(`disk-${tasks.length}`, instanceId as string, { wait: false }));
      expect(director.process.logs).to.contain("task log write failed");
    });
    expect(director.process.logs).to.contain(`the disk that holds ${storage}/director-events is full`);

    disk.makeRoom();
    for (const { taskId } of await Promise.all(tasks)) {
      expect(await director.watch(taskId)).to.deep.equal(usual);
    }
  });

  it("refuses an uploaded stemcell with the reason, and keeps none of it", async function () {
    leaveToVerify(this);
    const folder = join(disk.folder, "stemcells");
    director = await TestDirector.start({ stemcells: { folder } });
    disk.fill(1024 * 1024);
    const large = stemcellFile({}, { image: "an image ".repeat(200_000) });
    await rejection(
      director.upload(large),
      UnavailableError,
      `the disk that holds ${folder} (stemcells.folder) is full: free space there`,
    );
    expect(readdirSync(folder)).to.deep.equal([]);
    expect((await director.upload(stemcellFile())).state).to.equal(TaskState.DONE);
  });
});

const LATEST = { type: "cloud", name: "" };

async function forever(action: () => Promise<void>): Promise<never> {
  for (;;) await action();
}
