import { InvalidStateError, TimeoutError } from "@diskmesh/domain";
import { AgentError } from "@diskmesh/mbus";
import { expect } from "chai";
import type { TaskRun } from "../tasks/task-run.js";
import { requestRelease } from "./disk-steps.js";

describe("an agent's answer to the request to release a disk", () => {
  const silent = new TimeoutError("agent host-1 did not answer");
  const busy = new AgentError("host-1", "unmount_disk", "target is busy");
  const unknown = new AgentError("host-1", "unmount_disk", "Persistent disk with volume id 'd' could not be found");
  const fault = new TypeError("no such property");

  // Columns: the agent's behaviour, the error of its call, `mustLetGo`, and whether the detach continues.
  const ROWS: [string, Error, boolean, "goes on" | "fails"][] = [
    ["does not answer", silent, false, "goes on"],
    ["does not answer", silent, true, "goes on"],
    ["cannot let go", busy, false, "goes on"],
    ["cannot let go", busy, true, "fails"],
    ["knows no such disk", unknown, true, "goes on"],
    ["is never asked, by a fault of ours", fault, false, "fails"],
    ["is never asked, by a fault of ours", fault, true, "fails"],
  ];
  for (const [how, error, mustLetGo, effect] of ROWS) {
    it(`agent ${how}${mustLetGo ? ", with mustLetGo" : ""} -> the detach ${effect}`, async () => {
      const events: unknown[] = [];
      const event = (said: object): unknown => events.push(said);
      const run = { checkpoint: () => {}, event } as unknown as TaskRun;
      const request = requestRelease(run, { stage: "s", task: "t" }, Promise.reject(error), { mustLetGo });
      const outcome = await request.catch((reason: unknown) => reason);
      expect(outcome).to.equal(effect === "fails" ? error : false, "whether it let go");
      const message = `${error.message}; the disk is detached all the same`;
      const told = [{ stage: "s", task: "t", state: "failed", message }];
      expect(events).to.deep.equal(effect === "fails" ? [] : told);
    });
  }

  it("the task is stopped meanwhile -> it stops without an event about detaching", async () => {
    const stop = new InvalidStateError("cancelled");
    const run = {
      checkpoint: () => {
        throw stop;
      },
      event: () => expect.fail("it said so"),
    } as unknown as TaskRun;
    const request = requestRelease(run, { stage: "s", task: "t" }, Promise.reject(silent), { mustLetGo: false });
    expect(await request.catch((reason: unknown) => reason)).to.equal(stop);
  });
});
