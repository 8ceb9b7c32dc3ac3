import { CancelledError, FencedError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { Changes, systemClock } from "@diskmesh/service";
import { openStorage, Tablet, type TabletStorage } from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { BY_DIRECTOR } from "../audit/asker.js";
import { type DirectorTablet, storedSchema } from "../store/stored-schema.js";
import { Tasks } from "./tasks.js";

describe("waiting for a task that was started", () => {
  let tablet: DirectorTablet;
  let tasks: Tasks;
  let storage: TabletStorage;

  beforeEach(async () => {
    storage = openStorage(temporaryFolder(), "director");
    tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
    const endedTasks = { get: async () => undefined };
    tasks = new Tasks({
      onRecorded: () => {},
      tablet,
      endedTasks,
      changes: new Changes<number>(),
      clock: systemClock,
      queueLengths: { urgent: 9, normal: 9, dynamic_disks: 9, vendor_methods: 9 },
      cpisOf: () => [],
      answerMarginMs: 1,
    });
  });
  afterEach(() => tablet.close());

  async function endedBy(reason: Error): Promise<unknown> {
    const end = new AbortController();
    const identity = { role: "operator", name: "" } as const;
    const call = { identity, requestId: "r", signal: end.signal, deadlineAtMs: Date.now() + 60_000 };
    const job = { type: "detach_dynamic_disk", diskName: "d" } as const;
    const { taskId } = await tasks.start(call, { job, queue: "normal", description: "", deployment: "" });
    expect(taskId).to.equal(1);
    const waiting = tasks.whenEnded(taskId, call).catch((error: unknown) => error);
    end.abort(reason);
    return waiting;
  }

  for (const reason of [new UnavailableError("the server stops"), new FencedError("another leads")]) {
    it(`${reason.reason} -> reported as started with an unknown outcome, so that the caller starts no second task`, async () => {
      expect(reason.outcome).to.equal("not_done");
      expect(await endedBy(reason))
        .to.be.instanceOf(UnavailableError)
        .and.to.deep.include({
          message: `task 1 was started, but its outcome cannot be read here: ${reason.message}`,
          outcome: "unknown",
          about: { task_id: "1" },
        });
    });
  }

  it("a task that cannot be recorded -> onNotRecorded is called, so that its data can be forgotten", async () => {
    storage.commit = () => Promise.reject(new UnavailableError("the disk is gone", { outcome: "unknown" }));
    const told: string[] = [];
    const job = { type: "detach_dynamic_disk", diskName: "d" } as const;
    const start = tasks.start(BY_DIRECTOR, {
      job,
      queue: "normal",
      description: "",
      deployment: "",
      onNumbered: (taskId) => told.push(`numbered ${taskId}`),
      onNotRecorded: (taskId) => told.push(`not recorded ${taskId}`),
    });
    await rejection(start, UnavailableError);
    expect(told).to.deep.equal(["numbered 1", "not recorded 1"]);
  });

  it("the caller gave up -> only that is reported", async () => {
    const reason = new CancelledError("gone");
    expect(await endedBy(reason)).to.equal(reason);
  });
});
