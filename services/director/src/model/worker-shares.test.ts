import { expect } from "chai";
import { WorkerShares } from "./worker-shares.js";

describe("worker shares", () => {
  it("all workers of a CPI taken -> the next task waits, and another CPI's does not", () => {
    const shares = new WorkerShares(2);
    expect([1, 2, 3].map((taskId) => shares.take(taskId, "a"))).to.deep.equal([true, true, false]);
    expect(shares.take(4, "b")).to.equal(true);
    expect(shares.take(3, "a")).to.equal(false);
  });

  it("released -> the one that has waited longest has it, and need not ask", () => {
    const shares = new WorkerShares(1);
    for (const taskId of [1, 2, 3]) shares.take(taskId, "a");
    expect(shares.release(1)).to.equal(2);
    expect(shares.take(4, "a")).to.equal(false);
    expect(shares.take(2, "a")).to.equal(true);
    expect(shares.release(2)).to.equal(3);
    expect(shares.release(3)).to.equal(4);
    expect(shares.release(4)).to.equal(undefined);
    expect(shares.take(5, "a")).to.equal(true);
  });

  it("gone while it waits -> nobody gets a worker for it, nor it one", () => {
    const shares = new WorkerShares(1);
    for (const taskId of [1, 2, 3]) shares.take(taskId, "a");
    expect(shares.release(2)).to.equal(undefined);
    expect(shares.release(1)).to.equal(3);
  });

  it("granted and gone before it ran -> the next one has it", () => {
    const shares = new WorkerShares(1);
    for (const taskId of [1, 2, 3]) shares.take(taskId, "a");
    shares.release(1);
    expect(shares.release(2)).to.equal(3);
  });

  it("another CPI while it waits -> it waits there; while it has a worker -> it keeps that", () => {
    const shares = new WorkerShares(1);
    for (const taskId of [1, 2]) shares.take(taskId, "a");
    expect(shares.take(2, "b")).to.equal(true);
    expect(shares.release(1)).to.equal(undefined);
    expect(shares.take(3, "a")).to.equal(true);
    expect(shares.take(3, "b")).to.equal(true);
    expect(shares.release(2)).to.equal(undefined);
    expect(shares.take(4, "b")).to.equal(true);
  });

  it("nobody knows a task -> nothing happens", () => {
    expect(new WorkerShares(1).release(1)).to.equal(undefined);
  });
});
