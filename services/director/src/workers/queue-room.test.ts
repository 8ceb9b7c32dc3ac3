import { ResourceExhaustedError } from "@diskmesh/domain";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { nextNumber, taskKey } from "../model/schema.js";
import { end, type Job, newTask, type TaskQueue } from "../model/task.js";
import { type DirectorTablet, storedSchema } from "../stored-schema.js";
import { QueueRoom } from "./queue-room.js";

/** Twelve places, of which two are kept; a disk's name says which CPI it is about. */
describe("the room of a queue, as tasks come and go", () => {
  let tablet: DirectorTablet;
  let room: QueueRoom;

  function open(): void {
    room = new QueueRoom({
      queueLengths: { urgent: 12, normal: 12, dynamic_disks: 12, vendor_methods: 12 },
      cpisOf: (job) => ("diskName" in job ? [job.diskName] : []),
    });
    tablet.watch((changes) => room.onChanges(changes));
  }
  beforeEach(async () => {
    const storage = openStorage(temporaryFolder(), "director");
    tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
    open();
  });
  afterEach(() => tablet.close());

  const add = (cpi: string, queue: TaskQueue, user: string): Promise<number> =>
    tablet.transact((tx) => {
      const job: Job = { type: "detach_dynamic_disk", diskName: cpi };
      const note = room.admit(job, queue, user, tx);
      const taskId = nextNumber(tx, "task");
      tx.tasks.put(newTask({ taskId, job, description: "", queue, user, deployment: "" }, 0));
      note(taskId);
      return taskId;
    });
  const fill = async (cpi: string, queue: TaskQueue = "dynamic_disks", user = ""): Promise<number[]> => {
    const taskIds: number[] = [];
    for (;;)
      try {
        taskIds.push(await add(cpi, queue, user));
      } catch (error) {
        expect(error).to.be.instanceOf(ResourceExhaustedError);
        return taskIds;
      }
  };

  it("one CPI's tasks fill it -> two of another find room, and no third", async () => {
    expect(await fill("stuck")).to.have.length(10);
    expect(await fill("well")).to.have.length(2);
  });

  it("another director takes over -> it knows whose tasks there are", async () => {
    await fill("stuck");
    open();
    expect(await fill("stuck")).to.deep.equal([]);
    expect(await fill("well")).to.have.length(2);
  });

  it("one login's calls of vendors' methods take half of the places, also after a takeover", async () => {
    expect(await fill("node host-1", "vendor_methods", "mallory")).to.have.length(6);
    open();
    expect(await fill("node host-2", "vendor_methods", "mallory")).to.deep.equal([]);
    expect(await fill("node host-2", "vendor_methods", "alice")).to.have.length(4);
    expect(await fill("stuck", "dynamic_disks", "mallory")).to.have.length(10);
  });

  it("a task ends -> its place is free for its like again", async () => {
    const [first] = await fill("stuck");
    await tablet.transact((tx) => {
      const task = tx.tasks.get(taskKey(first as number));
      if (task) tx.tasks.put(end(task, { event: "fail", result: "" }, 1));
    });
    expect(await fill("stuck")).to.have.length(1);
  });
});
