import { setTimeout as sleep } from "node:timers/promises";
import { rejection } from "@diskmesh/domain/testing";
import { systemClock } from "@diskmesh/service";
import { expect } from "chai";
import { LockKeeper } from "./lock-keeper.js";
import type { LockName } from "./locks.js";

const TIMES = { deadlineMs: 100, acquireTimeoutMs: 50 };
const D: LockName = { type: "deployment", resource: "web" };
const I1: LockName = { type: "instance", resource: "i1" };
const I2: LockName = { type: "instance", resource: "i2" };

describe("lanes (concurrent parts) of a task", () => {
  let granted: number[];
  let locks: LockKeeper;
  const never = new AbortController().signal;
  const shown = () => locks.list().map((lock) => `${lock.resource}:${lock.taskId}(${lock.waitingTaskIds})`);

  beforeEach(() => {
    granted = [];
    locks = new LockKeeper({
      times: { deployment: TIMES, stemcell: TIMES, instance: TIMES, host: TIMES, disk: TIMES, node: TIMES },
      clock: systemClock,
      onGranted: (taskIds) => granted.push(...taskIds),
    });
  });

  it("hold locks concurrently, in addition to the task's; listed as the task's", async () => {
    locks.settle(7, [D]);
    const [one, two] = [locks.openLane(7), locks.openLane(7)];
    expect(await one.settle([I1], never)).to.equal("acquired");
    expect(await one.settle([I1], never)).to.equal("unchanged");
    expect(await two.settle([I2], never)).to.equal("acquired");
    expect(shown()).to.deep.equal(["web:7()", "i1:7()", "i2:7()"]);
    one.release();
    two.release();
    expect(shown()).to.deep.equal(["web:7()"]);
  });

  it("a lane waits for another task's lock -> in FIFO order, and must re-read; a task behind it is notified as usual", async () => {
    locks.settle(8, [I1]);
    const lane = locks.openLane(7);
    const waiting = lane.settle([I1], never);
    locks.settle(9, [I1]);
    expect(shown()).to.deep.equal(["i1:8(7,9)"]);
    locks.release(8);
    expect(await waiting).to.equal("acquired");
    expect(granted).to.deep.equal([]);
    lane.release();
    expect(granted).to.deep.equal([9]);
  });

  it("the task stops -> the lane's wait ends, and blocks no other", async () => {
    locks.settle(8, [I1]);
    const lane = locks.openLane(7);
    const stop = new AbortController();
    const waiting = lane.settle([I1], stop.signal);
    stop.abort(new Error("stop"));
    await rejection(waiting, Error, /stop/);
    lane.release();
    locks.release(8);
    expect(shown()).to.deep.equal([]);
  });

  it("a lane that waits too long, or does not renew -> reported with its task, or by itself without a task", async () => {
    locks.settle(8, [I1]);
    const [waits, holds] = [locks.openLane(7), locks.openLane(7)];
    await holds.settle([I2], never);
    const waiting = waits.settle([I1], never);
    while (locks.givenUp().length === 0 || locks.overdue().length < 2) await sleep(10);
    const [given] = locks.givenUp();
    expect(given).to.deep.include({ taskId: 7, owner: { taskId: 8, what: "" }, lock: I1 });
    expect(locks.overdue().map(({ taskId }) => taskId)).to.deep.equal([8, 7]);
    given?.endLane?.(new Error("late"));
    await rejection(waiting, Error, /late/);
    holds.renew();
    expect(locks.overdue().map(({ taskId }) => taskId)).to.deep.equal([8]);
  });
});
