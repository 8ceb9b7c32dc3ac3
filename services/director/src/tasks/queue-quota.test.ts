import { ResourceExhaustedError } from "@diskmesh/domain";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { nextNumber, taskKey } from "../store/schema.js";
import { type DirectorTablet, storedSchema } from "../store/stored-schema.js";
import type { Job, TaskQueue } from "../store/task.js";
import { refuseWhenFull } from "./queue-quota.js";
import { end, newTask } from "./task.js";

/** A queue of twelve places, two of which are kept for CPI sets with few tasks. */
describe("the places of a queue", () => {
  let tablet: DirectorTablet;

  let folder: string;
  const open = async (): Promise<void> => {
    const storage = openStorage(folder, "director");
    tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
  };
  beforeEach(async () => {
    folder = temporaryFolder();
    await open();
  });
  afterEach(() => tablet.close());

  const add = (cpiShare: string, queue: TaskQueue, user: string): Promise<number> =>
    tablet.transact((tx) => {
      refuseWhenFull(tx, { queue, cpiShare, user }, 12);
      const taskId = nextNumber(tx, "task");
      const job: Job = { type: "detach_dynamic_disk", diskName: "d" };
      tx.tasks.put(newTask({ taskId, job, description: "", queue, user, deployment: "", cpiShare }, 0));
      return taskId;
    });
  const fill = async (cpi: string, queue: TaskQueue = "dynamic_disks", user = ""): Promise<number[]> => {
    const taskIds: number[] = [];
    for (;;)
      try {
        taskIds.push(await add(cpi, queue, user));
      } catch (error) {
        expect(error).to.be.instanceOf(ResourceExhaustedError).and.include({ reason: "QUEUE_FULL" });
        return taskIds;
      }
  };

  it("one CPI's tasks fill it -> two tasks of another CPI are admitted, and no third", async () => {
    expect(await fill("stuck")).to.have.length(10);
    expect(await fill("well")).to.have.length(2);
  });

  it("another director takes over -> the counts stay", async () => {
    await fill("stuck");
    await tablet.close();
    await open();
    expect(await fill("stuck")).to.deep.equal([]);
    expect(await fill("well")).to.have.length(2);
  });

  it("one login's vendor method calls occupy at most half of the places, also after a takeover", async () => {
    expect(await fill("node host-1", "vendor_methods", "mallory")).to.have.length(6);
    await tablet.close();
    await open();
    expect(await fill("node host-2", "vendor_methods", "mallory")).to.deep.equal([]);
    expect(await fill("node host-2", "vendor_methods", "alice")).to.have.length(4);
    expect(await fill("stuck", "dynamic_disks", "mallory")).to.have.length(10);
  });

  it("a task ends -> its place is free for a task of the same kind", async () => {
    const [first] = await fill("stuck");
    await tablet.transact((tx) => {
      const task = tx.tasks.get(taskKey(first as number));
      if (task) tx.tasks.put(end(task, { event: "fail", result: "" }, 1));
    });
    expect(await fill("stuck")).to.have.length(1);
  });
});
