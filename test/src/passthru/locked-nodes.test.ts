import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { LockType } from "@diskmesh/api/director";
import { AbortedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { B, NODE } from "./rows.js";
import { faultOf, nodeTarget, PassthruScene, SAMPLE_NODES, taskOf } from "./scene.js";

/** Number of calls that wait for a locked node, and of calls to a free node meanwhile. */
const [WAITING, PASSING] = [100, 900];
/** Concurrent callers of the free node. */
const LANES = 10;

describe("vendor passthru, the lock of a node", () => {
  before(function () {
    leaveToVerify(this);
  });
  const scene = PassthruScene.forAllTests(SAMPLE_NODES);

  it("a call to a locked node gets 409 with the holder and its time; a call that needs no lock runs", async () => {
    const taskId = await scene.sleeping(3_600_000);
    const refused = await scene.send("POST", `${B}/none`);
    expect(refused.status).to.equal(409);
    expect(refused.headers["retry-after"]).to.equal("1");
    expect(faultOf(refused).faultstring).to.match(
      new RegExp(
        `^Node host-1 is locked by task ${taskId} \\(call sample.sleep_async on node host-1 for .*\\) since 20`,
      ),
    );
    const overGrpc = scene.vendors.callMethod({ target: nodeTarget(), method: "none" });
    expect(await rejection(overGrpc, AbortedError, "is locked by")).to.include({ reason: "NODE_LOCKED" });
    expect((await scene.send("POST", `${B}/nope`)).status).to.equal(400);
    expect((await scene.send("POST", `${B}/echo`)).status).to.equal(200);
    expect((await scene.send("POST", "/v1/nodes/host-2/vendor_passthru/none")).status).to.equal(200);
    expect((await scene.state()).reservation).to.equal(`task ${taskId}`);
    const listed = [
      { name: NODE, reservation: `task ${taskId}` },
      { name: "host-2", reservation: null },
    ];
    for (const query of ["/detail", "?detail=True", "?fields=name,reservation"]) {
      const { nodes } = JSON.parse((await scene.send("GET", `/v1/nodes${query}`)).body);
      const told = nodes.map(({ name, reservation }: (typeof listed)[0]) => ({ name, reservation }));
      expect(told, query).to.deep.equal(listed);
    }
    await scene.mesh.clients.tasks.cancelTask({ taskId });
    expect((await scene.ended(taskId)).state).to.equal("TASK_STATE_CANCELLED");
    await eventually(async () => expect((await scene.send("POST", `${B}/none`)).status).to.equal(200));
  });

  /** Returns the number of calls that wait for the node's lock. */
  const inLine = async (): Promise<number> => {
    const { locks } = await scene.locks.listLocks({});
    return locks.find(({ type, resource }) => type === LockType.NODE && resource === NODE)?.waitingTaskIds.length ?? 0;
  };

  it("waiting calls run in order, one at a time, and do not delay another node", async () => {
    const holder = await scene.sleeping(3_600_000);
    const turn = async (nodeId: string, at: number): Promise<void> => {
      const request = { target: nodeTarget(nodeId), method: "turn", args: { at }, wait: true };
      const { outcome } = await scene.vendors.callMethod(request, { deadlineMs: 240_000 });
      expect(outcome).to.deep.equal({ $case: "value", value: { at, atOnce: 1 } });
    };
    const waiting: Promise<unknown>[] = [];
    const order: number[] = [];
    for (let at = 0; at < WAITING; at++) {
      waiting.push(turn(NODE, at).then(() => order.push(at)));
      // Each call waits before the next one is sent.
      await eventually(async () => expect(await inLine()).to.equal(at + 1));
    }
    const lanes = Array.from({ length: LANES }, async (_, lane) => {
      for (let at = lane; at < PASSING; at += LANES) await turn("host-2", at);
    });
    await Promise.all(lanes);
    expect(order).to.deep.equal([]);
    await scene.mesh.clients.tasks.cancelTask({ taskId: holder });
    await Promise.all(waiting);
    expect(order).to.deep.equal(Array.from({ length: WAITING }, (_, at) => at));
  });

  it("waiting asynchronous calls run as tasks in order", async () => {
    const holder = await scene.sleeping(3_600_000);
    const taskIds: number[] = [];
    for (let at = 0; at < 30; at++) {
      const answer = await scene.send("POST", `${B}/turn_async?wait=true`, { at });
      expect(answer.status).to.equal(202);
      taskIds.push(taskOf(answer));
    }
    await scene.mesh.clients.tasks.cancelTask({ taskId: holder });
    const results = await Promise.all(taskIds.map(async (taskId) => JSON.parse((await scene.ended(taskId)).result)));
    expect(results.map(({ atOnce }) => atOnce)).to.deep.equal(taskIds.map(() => 1));
    const turns = results.map(({ turn }) => turn as number);
    expect(turns).to.deep.equal([...turns].sort((a, b) => a - b));
  });

  describe("after a kill", () => {
    it("of the director, its successor reports the outcome of a call that continued", async () => {
      const taskId = await scene.sleeping(1_500);
      await scene.restart("director");
      expect(await scene.ended(taskId)).to.include({ state: "TASK_STATE_DONE", result: '"slept"' });
      await eventually(async () => expect(await scene.state()).to.include({ reservation: null, last_error: null }));
    });

    it("of the director, a call of its own driver is not repeated, and its outcome is unknown", async () => {
      const { outcome } = await scene.vendors.callMethod({
        target: { target: { $case: "driver", value: "sample" } },
        method: "d_sleep",
        args: { ms: 3_600_000 },
      });
      const taskId = outcome?.$case === "task" ? outcome.value.taskId : 0;
      await scene.called(taskId);
      await scene.restart("director");
      const task = await scene.ended(taskId);
      expect(task.state).to.equal("TASK_STATE_ERROR");
      expect(task.result).to.contain("the director ended while the method ran");
    });

    it("of the director, a waiting call with secret arguments is not made", async () => {
      const { mesh } = scene;
      const holder = await scene.sleeping(3_600_000);
      const file = join(mesh.folder, "noted");
      const args = { file, password: "hunter2-secret" };
      const taskId = taskOf(await scene.send("POST", `${B}/login_async?wait=true`, args));
      await mesh.process("director").kill();
      const stored = await textsIn(mesh.dataFolder("director"));
      expect(stored).to.contain(file).and.not.to.contain("hunter2");
      await mesh.process("director").start();
      await mesh.clients.tasks.cancelTask({ taskId: holder });
      const task = await scene.ended(taskId);
      expect(task.state).to.equal("TASK_STATE_ERROR");
      expect(task.result).to.match(
        /^method login_async was not called: its secret arguments \(password\) are never stored/,
      );
      expect(existsSync(file)).to.equal(false);
      const request = { target: nodeTarget(), method: "login_async", args, wait: true };
      const { outcome } = await scene.vendors.callMethod(request);
      expect(outcome?.$case === "task" && outcome.value.result).to.equal('"logged in with <redacted>"');
      expect(readFileSync(file, "utf8").trim()).to.equal(createHash("sha256").update(args.password).digest("hex"));
      for (const name of ["director", NODE]) expect(mesh.process(name).logs).not.to.contain("hunter2");
    });

    it("of the agent, the call is not repeated, and its task and the node report that", async () => {
      const taskId = await scene.sleeping(3_600_000);
      await scene.called(taskId);
      await scene.restart(NODE);
      const task = await scene.ended(taskId);
      expect(task.state).to.equal("TASK_STATE_ERROR");
      expect(task.result).to.contain("the agent of node host-1 ended while the method ran");
      await eventually(async () =>
        expect((await scene.state()).last_error).to.contain(
          "Async execution of sleep_async failed with error: the agent",
        ),
      );
      await eventually(async () => expect((await scene.send("POST", `${B}/none`)).status).to.equal(200));
    });
  });
});

/** Returns the concatenated contents of all files in a folder. */
async function textsIn(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  return (await Promise.all(files.map((file) => readFile(file, "latin1")))).join();
}
