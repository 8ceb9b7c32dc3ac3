import { expect } from "chai";
import type { Job } from "../store/task.js";
import { ERROR, type TaskEvent, WARNING } from "../tasks/task-event.js";
import { retryOf, stepsOf } from "./task-panel.js";

const event = (timeMs: number, task: string, state: TaskEvent["state"], more: Partial<TaskEvent> = {}): TaskEvent => ({
  ...{ timeMs, stage: "Attaching disk", tags: [], total: 0, task, index: 1, state, message: "" },
  ...more,
});

describe("the panel of a task", () => {
  it("has each step once, as its last event tells it, without the error of the whole task", () => {
    const events = [
      event(1, "a", "started"),
      event(2, "a", "in_progress", { percent: 42, message: "bank 2" }),
      event(3, "b", "started"),
      event(4, "a", "finished"),
      event(5, "", "finished", { stage: WARNING, message: "take care" }),
      event(6, "b", "failed", { message: "no" }),
      event(7, "", "failed", { stage: ERROR, message: "no" }),
    ];
    expect(stepsOf(events.slice(0, 3))).to.deep.equal([
      { name: "Attaching disk: a", startedMs: 1, message: "42 %: bank 2", state: "processing" },
      { name: "Attaching disk: b", startedMs: 3, message: "", state: "processing" },
    ]);
    expect(stepsOf(events)).to.deep.equal([
      { name: "Attaching disk: a", startedMs: 1, message: "", state: "done", endedMs: 4 },
      { name: "Attaching disk: b", startedMs: 3, message: "no", state: "error", endedMs: 6 },
      { name: "Warning", startedMs: 5, message: "take care", state: "done", endedMs: 5 },
    ]);
  });

  const onDisk = { kind: "disk", name: "cid-1" };
  const resize: Job = { type: "resize_dynamic_disk", diskName: "scratch", sizeMib: 64 };
  const provide = {
    type: "provide_dynamic_disk",
    diskName: "scratch",
    instanceId: "",
    hostId: "h",
    pool: "ssd",
  } as const;
  const limits = {
    readIops: 5,
    writeIops: 0,
    readBytesPerSecond: 2 ** 21,
    writeBytesPerSecond: 2 ** 20 + 1,
    burstSeconds: 0,
  };
  const limit: Job = { type: "set_dynamic_disk_limits", diskName: "scratch", limits };
  const rows: readonly [what: string, job: Job | null, retry: object | undefined][] = [
    ["an ended task without a job", null, undefined],
    ["resize", resize, { ...onDisk, action: "resize", values: { size: "64MiB" } }],
    ["resize of a disk that is gone", { ...resize, diskName: "gone" }, undefined],
    ["resize within a scope", { ...resize, scope: { teams: ["t"] } } as Job, undefined],
    [
      "provide for a host",
      { ...provide, sizeMib: 1, metadata: null },
      { kind: "host", name: "h", action: "provide", values: { disk_name: "scratch", size: "1MiB", pool: "ssd" } },
    ],
    ["provide with metadata, which the form lacks", { ...provide, sizeMib: 1, metadata: { a: 1 } }, undefined],
    ["provide read-only, which the form lacks", { ...provide, sizeMib: 1, metadata: null, readOnly: true }, undefined],
    [
      "limits",
      limit,
      {
        ...{ ...onDisk, action: "limits" },
        values: { read_iops: "5", read_bytes_per_second: "2MiB", write_bytes_per_second: "1048577B" },
      },
    ],
    ["limits with a burst, which the form lacks", { ...limit, limits: { ...limits, burstSeconds: 3 } }, undefined],
    ["detach", { type: "detach_dynamic_disk", diskName: "scratch" }, { ...onDisk, action: "detach", values: {} }],
    ["a deployment's task", { type: "delete_deployment", deployment: "d", force: false }, undefined],
  ];
  for (const [what, job, retry] of rows)
    it(`${what} -> ${retry === undefined ? "no retry" : "its action with its values"}`, () => {
      const disks = new Map([["scratch", { diskCid: "cid-1" }]]);
      const tables = { disks } as unknown as Parameters<typeof retryOf>[1];
      expect(retryOf({ job }, tables)).to.deep.equal(retry);
    });
});
