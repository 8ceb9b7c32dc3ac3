import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { CallMethodRequest, MethodTarget } from "@diskmesh/api/director";
import { AlreadyExistsError, InvalidArgumentError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { OWN_USER, SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { eventually, freePort } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";
import { TestNode } from "../testing/test-node.js";

const NODE: MethodTarget = { target: { $case: "nodeId", value: "host-1" } };
const DRIVER: MethodTarget = { target: { $case: "driver", value: "sample" } };

describe("a call of a vendor method with a request id", () => {
  let director: TestDirector;
  let node: TestNode;
  let notes: string;
  before(async () => {
    const port = await freePort();
    director = await TestDirector.start({
      nodes: { registries: [{ address: `127.0.0.1:${port}` }] },
      drivers: [{ package: SAMPLE_DRIVER, ...OWN_USER }],
    });
    notes = join(director.folder, "notes");
    node = await TestNode.start(director.certs, "host-1", port);
    await running();
  });
  after(async () => {
    await node?.close();
    await director?.stop();
  });

  const running = () => eventually(async () => director.vendors.listMethods({ target: DRIVER }));
  const call = async (request: Parameters<TestDirector["vendors"]["callMethod"]>[0]) => {
    const { outcome } = await director.vendors.callMethod(request);
    if (outcome?.$case !== "task") throw new Error("no task");
    return outcome.value;
  };
  const note = (requestId: string, more: Partial<CallMethodRequest> = {}) =>
    call({ target: DRIVER, method: "d_note", args: { file: notes, line: requestId }, requestId, ...more });
  const timesRun = (line: string): number =>
    readFileSync(notes, "utf8")
      .split("\n")
      .filter((each) => each === line).length;

  it("is made once, however often it is repeated at once, later, and after a restart", async () => {
    const first = await Promise.all(Array.from({ length: 5 }, () => note("once")));
    const ended = await note("once", { wait: true });
    expect(ended.state).to.equal("TASK_STATE_DONE");
    expect(new Set(first.map(({ taskId }) => taskId))).to.deep.equal(new Set([ended.taskId]));
    await director.process.restart();
    expect(await note("once")).to.deep.include({ taskId: ended.taskId, state: "TASK_STATE_DONE" });
    expect(timesRun("once")).to.equal(1);
    await running();
    expect((await note("twice", { wait: true })).taskId).to.be.above(ended.taskId);
    expect((await note("twice", { args: { file: notes, line: "twice" } })).state).to.equal("TASK_STATE_DONE");
    expect([timesRun("once"), timesRun("twice")]).to.deep.equal([1, 1]);
  });

  it("gets its task while that task holds the node's lock", async () => {
    const request = { target: NODE, method: "sleep_async", args: { ms: 3_600_000 }, requestId: "asleep" };
    const { taskId } = await call(request);
    expect((await call(request)).taskId).to.equal(taskId);
    await director.tasks.cancelTask({ taskId });
    expect(await call({ ...request, wait: true })).to.include({ taskId, state: "TASK_STATE_CANCELLED" });
  });

  it("is refused when another call had the id", async () => {
    await note("taken", { wait: true });
    const other = { target: DRIVER, method: "d_async", requestId: "taken" };
    await rejection(call(other), AlreadyExistsError, "request_id taken belongs to another call");
  });

  it("is refused for a synchronous method, whose answer is not remembered", async () => {
    const sync = { target: DRIVER, method: "d_none", requestId: "sync" };
    const { about } = await rejection(call(sync), InvalidArgumentError, "is synchronous");
    expect(about).to.include({ field: "request_id" });
    await rejection(note("no id"), InvalidArgumentError, "request_id");
  });

  it("leaves the id free when it was refused", async () => {
    await rejection(note("free", { args: {} }), InvalidArgumentError, "Parameter 'file' not passed");
    expect((await note("free", { wait: true })).state).to.equal("TASK_STATE_DONE");
  });
});
