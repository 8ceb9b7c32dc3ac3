import { expect } from "chai";
import { mayJoin, WorkerQuotas } from "./worker-quotas.js";

describe("worker quotas", () => {
  it("all workers of a CPI busy -> its next task waits, and another CPI's task does not", () => {
    const shares = new WorkerQuotas(2);
    expect([1, 2, 3].map((taskId) => shares.take(taskId, ["a"]).hasWorker)).to.deep.equal([true, true, false]);
    expect(shares.take(4, ["b"]).hasWorker).to.equal(true);
    expect(shares.take(3, ["a"]).hasWorker).to.equal(false);
  });

  it("a released worker -> goes to the task that has waited longest", () => {
    const shares = new WorkerQuotas(1);
    for (const taskId of [1, 2, 3]) shares.take(taskId, ["a"]).hasWorker;
    expect(shares.release(1)).to.equal(2);
    expect(shares.take(4, ["a"]).hasWorker).to.equal(false);
    expect(shares.take(2, ["a"]).hasWorker).to.equal(true);
    expect(shares.release(2)).to.equal(3);
    expect(shares.release(3)).to.equal(4);
    expect(shares.release(4)).to.equal(undefined);
    expect(shares.take(5, ["a"]).hasWorker).to.equal(true);
  });

  it("a task that leaves the queue -> gets no worker, and no other gets one for it", () => {
    const shares = new WorkerQuotas(1);
    for (const taskId of [1, 2, 3]) shares.take(taskId, ["a"]).hasWorker;
    expect(shares.release(2)).to.equal(undefined);
    expect(shares.release(1)).to.equal(3);
  });

  it("a task that ends before it runs -> its granted worker goes to the next", () => {
    const shares = new WorkerQuotas(1);
    for (const taskId of [1, 2, 3]) shares.take(taskId, ["a"]).hasWorker;
    shares.release(1);
    expect(shares.release(2)).to.equal(3);
  });

  it("other CPIs by now -> the task changes its set, and the next in line gets its worker", () => {
    const shares = new WorkerQuotas(1);
    for (const taskId of [1, 2, 3]) shares.take(taskId, ["a"]);
    expect(shares.take(2, ["b"])).to.deep.equal({ hasWorker: true, next: undefined });
    expect(shares.take(1, ["b"])).to.deep.equal({ hasWorker: false, next: 3 });
    expect(shares.take(3, ["a"])).to.deep.equal({ hasWorker: true, next: undefined });
    expect(shares.release(2)).to.equal(1);
  });

  it("the same CPIs in another order, or twice -> the same set", () => {
    const shares = new WorkerQuotas(1);
    expect(shares.take(1, ["a", "b"]).hasWorker).to.equal(true);
    expect(shares.take(2, ["b", "a", "b"]).hasWorker).to.equal(false);
  });

  it("tasks that also call a hanging CPI take all workers of their set -> none of the workers of other tasks", () => {
    const shares = new WorkerQuotas(1);
    for (const [taskId, cpis] of [["b"], ["a", "b"], ["b", "c"], [], ["", "b"]].entries())
      expect(shares.take(taskId, cpis).hasWorker).to.equal(true);
    for (const [taskId, cpis] of [["a"], ["c"], ["a", "c"], [""]].entries())
      expect(shares.take(10 + taskId, cpis).hasWorker).to.equal(true);
    expect(shares.take(20, ["b", "a"]).hasWorker).to.equal(false);
  });

  it("an unknown task -> no effect", () => {
    expect(new WorkerQuotas(1).release(1)).to.equal(undefined);
  });
});

describe("admission of tasks to a queue", () => {
  const fill = (limit: number, lengths: number[], set: number): void => {
    const length = () => lengths.reduce((sum, each) => sum + each, 0);
    const more = () => ({ ofCpiSet: lengths[set] ?? 0, length: length(), limit });
    while (length() < limit && mayJoin(more())) lengths[set] = (lengths[set] ?? 0) + 1;
  };

  const cases: [what: string, limit: number, full: number, left: number][] = [
    ["one set", 200, 1, 33],
    ["two full shares", 200, 2, 31],
    ["ten full shares", 200, 10, 15],
    ["one set of a short queue", 5, 1, 0],
  ];
  for (const [what, limit, full, left] of cases)
    it(`${what} -> ${left} of ${limit} places are left for another`, () => {
      const lengths = Array.from({ length: full }, () => 0);
      for (const index of lengths.keys()) fill(limit, lengths, index);
      const taken = lengths.reduce((sum, each) => sum + each, 0);
      expect(limit - taken).to.equal(left);
      if (left > 0) expect(mayJoin({ ofCpiSet: 0, length: taken, limit })).to.equal(true);
    });
});
