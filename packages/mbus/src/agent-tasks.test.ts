import { NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import { collectGarbage } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentTasks } from "./agent-tasks.js";
import { isRunningTask } from "./running-task.js";

const limits = { maxWaitingTasks: 2, maxKeptResults: 2, maxKeptResultBytes: 1024 * 1024 };
const settled = () => new Promise((resolve) => setImmediate(resolve));

function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

describe("an agent's tasks", () => {
  it("run one at a time, in order, and keep their results", async () => {
    const tasks = new AgentTasks(limits);
    const log: string[] = [];
    const first = gate();
    const a = tasks.start(async () => {
      log.push("a starts");
      await first.opened;
      log.push("a ends");
      return "A";
    });
    const b = tasks.start(async () => {
      log.push("b starts");
      throw new Error("b is broken");
    });
    await settled();
    expect(log).to.deep.equal(["a starts"]);
    expect(tasks.get(b.agent_task_id)).to.satisfy(isRunningTask);
    first.open();
    await settled();
    expect(log).to.deep.equal(["a starts", "a ends", "b starts"]);
    expect(tasks.get(a.agent_task_id)).to.deep.equal({ value: "A" });
    expect(tasks.get(b.agent_task_id)).to.deep.equal({ exception: "b is broken" });
  });

  it("are refused when too many wait, and taken again later", async () => {
    const tasks = new AgentTasks(limits);
    const { opened, open } = gate();
    for (let i = 0; i < 3; i++) tasks.start(() => opened);
    expect(() => tasks.start(() => opened)).to.throw(ResourceExhaustedError, "maxWaitingTasks");
    open();
    await settled();
    expect(tasks.start(() => opened)).to.satisfy(isRunningTask);
  });

  it("are forgotten oldest first, and never while they wait or run", async () => {
    const tasks = new AgentTasks(limits);
    const ended: string[] = [];
    for (let i = 0; i < 3; i++) {
      ended.push(tasks.start(async () => i).agent_task_id);
      await settled();
    }
    const { opened, open } = gate();
    const [running, waiting] = [tasks.start(() => opened), tasks.start(() => opened)];
    expect(() => tasks.get(ended[0] as string)).to.throw(NotFoundError, "could not be found");
    expect(tasks.get(ended[2] as string)).to.deep.equal({ value: 2 });
    expect(tasks.get(running.agent_task_id)).to.satisfy(isRunningTask);
    expect(tasks.get(waiting.agent_task_id)).to.satisfy(isRunningTask);
    open();
  });

  it("are cancelled by their signal while they run, and never start when they waited", async () => {
    const tasks = new AgentTasks(limits);
    const first = tasks.start(
      (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    );
    let hasRun = false;
    const second = tasks.start(async () => {
      hasRun = true;
    });
    tasks.cancel(second.agent_task_id);
    tasks.cancel(first.agent_task_id);
    await settled();
    expect(tasks.get(first.agent_task_id)).to.deep.equal({ exception: "the task was cancelled" });
    expect(tasks.get(second.agent_task_id)).to.deep.equal({ exception: "the task was cancelled" });
    expect(hasRun).to.equal(false);
    expect(() => tasks.cancel("nobody")).to.throw(NotFoundError);
  });

  it("say once each that they have ended, however they did", async () => {
    const tasks = new AgentTasks(limits);
    const ended: string[] = [];
    const first = gate();
    tasks.start(
      () => first.opened,
      () => ended.push("done"),
    );
    const cancelled = tasks.start(
      () => expect.fail("it ran"),
      () => ended.push("cancelled"),
    );
    tasks.start(
      () => Promise.reject(new Error("broken")),
      () => ended.push("failed"),
    );
    tasks.cancel(cancelled.agent_task_id);
    await settled();
    expect(ended).to.deep.equal([]);
    first.open();
    await settled();
    expect(ended).to.deep.equal(["done", "cancelled", "failed"]);
  });

  it("have all ended once closed", async () => {
    const tasks = new AgentTasks(limits);
    const { opened, open } = gate();
    const task = tasks.start(() => opened);
    let isClosed = false;
    const closing = tasks.close().then(() => {
      isClosed = true;
    });
    await settled();
    expect(isClosed).to.equal(false);
    open();
    await closing;
    expect(tasks.get(task.agent_task_id)).to.deep.equal({ value: null });
  });

  it("hold on to nothing of a request once they have ended", async () => {
    const tasks = new AgentTasks({ ...limits, maxKeptResults: 1_000 });
    const requests: WeakRef<object>[] = [];
    const ids: string[] = [];
    for (let i = 0; i < 20; i++) {
      ids.push(startWithRequest(tasks, requests));
      await settled();
    }
    collectGarbage();
    await settled();
    collectGarbage();
    expect(requests.filter((request) => request.deref() !== undefined)).to.have.length(0);
    for (const id of ids) expect(tasks.get(id)).to.deep.equal({ value: { done: "x".repeat(1_000) } });
    await tasks.close();
  });

  it("have results of so many bytes in all, the latest of them", async () => {
    const tasks = new AgentTasks({ ...limits, maxKeptResults: 1_000, maxKeptResultBytes: 10_000 });
    const ids: string[] = [];
    for (let i = 0; i < 20; i++) {
      ids.push(tasks.start(async () => "x".repeat(1_900)).agent_task_id);
      await settled();
    }
    const kept = ids.filter((id) => {
      try {
        return tasks.get(id) !== undefined;
      } catch (error) {
        expect(error).to.be.instanceOf(NotFoundError);
        return false;
      }
    });
    expect(kept).to.deep.equal(ids.slice(-5));
    await tasks.close();
  });

  it("whose result is too long for a reply say so, and keep no more of it", async () => {
    const tasks = new AgentTasks(limits);
    const { agent_task_id: id } = tasks.start(async () => "x".repeat(2 * 1024 * 1024));
    await settled();
    expect(tasks.get(id)).to.deep.equal({ exception: "Response exceeded maximum allowed length" });
    await tasks.close();
  });
});

/** In a function of its own, so that nothing of the request is left on the stack. The result is a part of it. */
function startWithRequest(tasks: AgentTasks, requests: WeakRef<object>[]): string {
  const request = { args: [{ hint: "secret", done: "x".repeat(1_000) }] };
  requests.push(new WeakRef(request));
  return tasks.start(async () => ({ done: request.args[0]?.done })).agent_task_id;
}
