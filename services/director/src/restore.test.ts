import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { SubjectKind } from "@diskmesh/api/common";
import { databaseUrl, documentDatabase, newTabletName, removeTablet } from "@diskmesh/tablet/testing";
import { eventually, leaveToVerify, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "./testing/test-director.js";

const RESTORE = fileURLToPath(new URL("./restore.js", import.meta.url));

for (const store of ["a folder", "MongoDB"])
  describe(`a director on ${store} that is restored from a backup`, () => {
    let director: TestDirector;
    let folder: string;
    let remove: () => Promise<void> = async () => {};

    before(async function () {
      if (store === "MongoDB") leaveToVerify(this);
      folder = temporaryFolder();
      if (store === "a folder") {
        director = await TestDirector.start();
        return;
      }
      const found = await documentDatabase();
      if (typeof found === "string") return skipBecause(this, found);
      const [storage, name] = [databaseUrl(found.url), newTabletName()];
      remove = () => removeTablet(storage, name);
      // Short, because the next director waits for the lease of the killed director to expire.
      director = await TestDirector.start({ tablet: { storage, name, leaseTimeMs: 4_000 } });
    });
    after(async () => {
      await director?.stop();
      await remove();
    });

    async function backUp(): Promise<string> {
      const pieces: Buffer[] = [];
      for await (const { piece } of director.admin.createBackup({})) pieces.push(piece);
      const file = join(folder, "backup");
      writeFileSync(file, Buffer.concat(pieces));
      return file;
    }

    async function restore(file: string): Promise<string> {
      await director.process.kill();
      const config = join(folder, "config.yaml");
      // Released programs do not accept `tuning`, which only tests set.
      writeFileSync(config, JSON.stringify({ ...director.config, tuning: undefined }));
      const args = [RESTORE, "--config", config, "--from", file, "--replace"];
      const { stdout } = await promisify(execFile)(process.execPath, args);
      await director.process.start();
      return stdout;
    }

    const states = async (taskIds: readonly number[]) =>
      Promise.all(taskIds.map(async (taskId) => (await director.task(taskId)).state));

    it("resumes no task by itself: an operator resumes or cancels held tasks, and new numbers are unused", async () => {
      const [instance = ""] = await director.deploy("one", 1);
      const done = await director.provide("disk-0", instance);
      const gate = director.cpi.gate("createDisk", "before");
      const { task: running } = await director.disks.provideDynamicDisk(wanted("disk-1", instance));
      await gate.reached;
      const { task: waiting } = await director.disks.provideDynamicDisk(wanted("disk-2", instance));
      const taskIds = [running?.taskId ?? 0, waiting?.taskId ?? 0];
      const file = await backUp();
      gate.release();
      await director.ended(taskIds[1] as number);
      const after = await director.provide("disk-3", instance);
      const calls = director.dispatcher.fences.length;

      const said = await restore(file);
      expect(said)
        .to.contain("ResumeTask")
        .and.to.match(/restored [0-9]+ documents of tablet /);
      await eventually(() => director.dispatcher.fences.length > calls);
      expect(await states(taskIds)).to.deep.equal(["TASK_STATE_HELD", "TASK_STATE_HELD"]);
      const { tasks: held } = await director.tasks.listTasks({
        states: ["TASK_STATE_HELD"],
      });
      expect(held.map(({ taskId }) => taskId).sort()).to.deep.equal([...taskIds].sort());
      expect((await director.task(done.taskId)).state).to.equal("TASK_STATE_DONE");
      expect(director.dispatcher.fences.at(-1)).to.be.above(2 ** 20);

      const [cause] = await director.why(SubjectKind.TASK, taskIds[0] as number);
      expect(cause).to.include({ reason: "HELD" });
      expect(cause?.cures.map(({ command }) => command)).to.include(`diskmesh resume ${taskIds[0]}`);
      await director.tasks.resumeTask({ taskId: taskIds[0] as number });
      expect((await director.ended(taskIds[0] as number)).state).to.equal("TASK_STATE_DONE");
      expect(await director.why(SubjectKind.TASK, taskIds[0] as number)).to.deep.equal([]);
      await director.tasks.cancelTask({ taskId: taskIds[1] as number });
      expect(await states(taskIds)).to.deep.equal(["TASK_STATE_DONE", "TASK_STATE_CANCELLED"]);
      const next = await director.provide("disk-4", instance);
      expect(next.state).to.equal("TASK_STATE_DONE");
      expect(next.taskId).to.be.above(after.taskId + 2 ** 31);
    });

    it("restored again from the same backup -> claims above the generation that the dispatcher has seen", async function () {
      leaveToVerify(this);
      const seen = director.dispatcher.fences.at(-1) as number;
      for (let restart = 0; restart < 2; restart++) await director.process.restart();
      await eventually(() => (director.dispatcher.fences.at(-1) as number) > seen + 1);
      const highest = director.dispatcher.fences.at(-1) as number;
      await restore(join(folder, "backup"));
      await eventually(() => (director.dispatcher.fences.at(-1) as number) > highest);
      const [instance] = (await director.deployments.listInstances({ deployment: "one" })).instances;
      expect((await director.provide("disk-5", instance?.instanceId ?? "")).state).to.equal("TASK_STATE_DONE");
    });
  });

const wanted = (diskName: string, instanceId: string) => ({
  diskName,
  instanceId,
  diskPoolName: "fast",
  sizeBytes: 64 * 1024 * 1024,
});
