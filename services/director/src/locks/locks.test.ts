import { expect } from "chai";
import { compareLocks, type LockName, LockTable } from "./locks.js";

const TIMES = {
  deployment: { deadlineMs: 3_600_000, acquireTimeoutMs: 3_600_000 },
  stemcell: { deadlineMs: 3_600_000, acquireTimeoutMs: 3_600_000 },
  instance: { deadlineMs: 240_000, acquireTimeoutMs: 60_000 },
  host: { deadlineMs: 240_000, acquireTimeoutMs: 60_000 },
  disk: { deadlineMs: 240_000, acquireTimeoutMs: 60_000 },
  node: { deadlineMs: 240_000, acquireTimeoutMs: 60_000 },
};
const D: LockName = { type: "deployment", resource: "web" };
const I1: LockName = { type: "instance", resource: "i1" };
const I2: LockName = { type: "instance", resource: "i2" };
const A: LockName = { type: "disk", resource: "a" };
const B: LockName = { type: "disk", resource: "b" };

describe("locks", () => {
  let locks: LockTable;
  beforeEach(() => {
    locks = new LockTable(TIMES);
  });
  const outcome = (taskId: number, wanted: LockName[], nowMs = 0): string =>
    locks.settle(taskId, wanted, nowMs).outcome;
  const owners = (): string[] => locks.list().map((lock) => `${lock.resource}:${lock.taskId}(${lock.waitingTaskIds})`);

  it("a free lock -> acquired, so the caller must re-read; then unchanged", () => {
    expect(outcome(1, [I1, A])).to.equal("acquired");
    expect(outcome(1, [I1, A])).to.equal("unchanged");
  });

  it("nothing wanted, nothing held -> unchanged", () => {
    expect(outcome(1, [])).to.equal("unchanged");
  });

  it("a held lock -> waiting, and granted in FIFO order", () => {
    locks.settle(1, [A], 0);
    expect(outcome(2, [A])).to.equal("waiting");
    expect(outcome(3, [A])).to.equal("waiting");
    expect(outcome(2, [A])).to.equal("waiting");
    expect(owners()).to.deep.equal(["a:1(2,3)"]);
    expect(locks.release(1, 5)).to.deep.equal([2]);
    expect(owners()).to.deep.equal(["a:2(3)"]);
    expect(outcome(2, [A])).to.equal("unchanged");
    expect(locks.release(2, 6)).to.deep.equal([3]);
    expect(locks.release(3, 7)).to.deep.equal([]);
    expect(locks.size).to.equal(0);
  });

  it("the owner renews -> the deadline of its locks moves, and of no others", () => {
    locks.settle(1, [I1, A], 0);
    locks.settle(2, [B], 0);
    locks.renew(1, 100_000);
    locks.renew(3, 100_000);
    expect(locks.overdue(240_000).map((lock) => lock.resource)).to.deep.equal(["b"]);
    expect(locks.overdue(339_999).map((lock) => lock.resource)).to.deep.equal(["b"]);
    expect(locks.overdue(340_000).map((lock) => lock.resource)).to.deep.equal(["i1", "a", "b"]);
  });

  it("granted the first of two -> still acquires the second, and must re-read", () => {
    locks.settle(1, [I1], 0);
    expect(outcome(2, [I1, A])).to.equal("waiting");
    locks.release(1, 1);
    expect(outcome(2, [I1, A])).to.equal("acquired");
  });

  it("the next step of the same deployment -> keeps the deployment's lock, releases the instance's", () => {
    locks.settle(1, [D, I1], 0);
    expect(outcome(2, [I1, A])).to.equal("waiting");
    const settled = locks.settle(1, [D, I2], 1);
    expect(settled).to.deep.equal({ outcome: "acquired", granted: [2] });
    expect(owners()).to.deep.equal(["web:1()", "i1:2()", "i2:1()"]);
  });

  it("a step with fewer locks -> the surplus is released", () => {
    locks.settle(1, [D, I1], 0);
    locks.settle(1, [D], 1);
    expect(owners()).to.deep.equal(["web:1()"]);
  });

  it("an earlier lock becomes necessary -> later locks are released first", () => {
    locks.settle(1, [A], 0);
    expect(outcome(2, [A])).to.equal("waiting");
    const settled = locks.settle(1, [I1, A], 1);
    expect(settled).to.deep.equal({ outcome: "waiting", granted: [2] });
    expect(owners()).to.deep.equal(["i1:1()", "a:2(1)"]);
  });

  it("the wanted locks change while waiting -> waits for the new lock only", () => {
    locks.settle(1, [A, B], 0);
    locks.settle(2, [A], 0);
    expect(outcome(2, [B])).to.equal("waiting");
    expect(owners()).to.deep.equal(["a:1()", "b:1(2)"]);
  });

  it("released while waiting -> leaves the queue", () => {
    locks.settle(1, [A], 0);
    locks.settle(2, [A], 0);
    locks.release(2, 1);
    expect(locks.release(1, 2)).to.deep.equal([]);
    expect(locks.size).to.equal(0);
  });

  it("past the deadline -> overdue, counted from the grant, and still held", () => {
    locks.settle(1, [A], 1_000);
    locks.settle(2, [A], 1_000);
    expect(locks.overdue(240_999)).to.deep.equal([]);
    expect(locks.overdue(241_000).map((lock) => lock.taskId)).to.deep.equal([1]);
    expect(owners()).to.deep.equal(["a:1(2)"]);
    locks.release(1, 250_000);
    expect(locks.overdue(489_999)).to.deep.equal([]);
  });

  it("waited too long -> given up, naming the lock and its owner", () => {
    locks.settle(1, [A], 0);
    locks.settle(2, [A], 10_000);
    expect(locks.givenUp(69_999)).to.deep.equal([]);
    expect(locks.givenUp(70_000)).to.deep.equal([{ taskId: 2, lock: A, ownerTaskId: 1 }]);
  });

  it("unsorted or duplicate locks -> a thrown bug", () => {
    expect(() => locks.settle(1, [A, I1], 0)).to.throw("out of order");
    expect(() => locks.settle(1, [A, A], 0)).to.throw("out of order");
  });

  it("many tasks, random locks -> never two owners, and no task waits forever", () => {
    let seed = 12345;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    const all = [D, I1, I2, A, B];
    const wanted = new Map<number, LockName[]>();
    const runnable = new Set<number>();
    for (let taskId = 1; taskId <= 200; taskId++) {
      wanted.set(taskId, all.filter(() => random(2) === 0).sort(compareLocks));
      runnable.add(taskId);
    }
    let ended = 0;
    while (runnable.size > 0) {
      const taskId = [...runnable][random(runnable.size)] as number;
      const settled = locks.settle(taskId, wanted.get(taskId) as LockName[], 0);
      for (const other of settled.granted) runnable.add(other);
      if (settled.outcome === "waiting") runnable.delete(taskId);
      else if (settled.outcome === "unchanged") {
        runnable.delete(taskId);
        if (random(3) === 0 && ended < 150) {
          // The task's next step needs other locks.
          wanted.set(taskId, all.filter(() => random(2) === 0).sort(compareLocks));
          runnable.add(taskId);
        } else {
          for (const other of locks.release(taskId, 0)) runnable.add(other);
          ended++;
        }
      }
    }
    expect(ended).to.equal(200);
    expect(locks.size).to.equal(0);
  });
});
