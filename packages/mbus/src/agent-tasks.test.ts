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

  it("are refused when too many wait, and accepted again later", async () => {
    const tasks = new AgentTasks(limits);
    const { opened, open } = gate();
    for (let i = 0; i < 3; i++) tasks.start(() => opened);
    expect(() => tasks.start(() => opened)).to.throw(ResourceExhaustedError, "maxWaitingTasks");
    open();
    await settled();
    expect(tasks.start(() => opened)).to.satisfy(isRunningTask);
  });

  it("are forgotten oldest first, and never while waiting or running", async () => {
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

  it("are cancelled by their signal when running, and never start when waiting", async () => {
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

  it("report their end exactly once, however they end", async () => {
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

  it("have all ended after close", async () => {
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

  it("retain nothing of a request after they have ended", async () => {
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

  it("keep results up to a limit in bytes, the latest ones", async () => {
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

  it("report a result that is too long for a reply, and do not keep it", async () => {
    const tasks = new AgentTasks(limits);
    const { agent_task_id: id } = tasks.start(async () => "x".repeat(2 * 1024 * 1024));
    await settled();
    expect(tasks.get(id)).to.deep.equal({ exception: "Response exceeded maximum allowed length" });
    await tasks.close();
  });
});

/** A separate function, so that no reference to the request stays on the stack. The result is a part of the request. */
function startWithRequest(tasks: AgentTasks, requests: WeakRef<object>[]): string {
  const request = { args: [{ hint: "secret", done: "x".repeat(1_000) }] };
  requests.push(new WeakRef(request));
  return tasks.start(async () => ({ done: request.args[0]?.done })).agent_task_id;
}
