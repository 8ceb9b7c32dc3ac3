import { existsSync } from "node:fs";
import { ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { MISBEHAVING_DRIVER } from "@diskmesh/driver/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { B } from "./rows.js";
import { faultOf, nodeTarget, PassthruScene, taskOf } from "./scene.js";

describe("vendor passthru, drivers that hang", () => {
  const scene = PassthruScene.forAllTests({
    hosts: 1,
    directorDrivers: [],
    agentDrivers: [{ package: MISBEHAVING_DRIVER }],
    methods: ["deaf"],
    maxConcurrentCalls: 2,
  });

  it("a call longer than the time limit of its method gets 504 with an unknown outcome", async () => {
    const answer = await scene.send("POST", `${B}/deaf_soon`);
    expect(answer.status, answer.body).to.equal(504);
    expect(faultOf(answer).faultstring).to.contain("did not return within 5000 ms").and.to.contain("is not known");
  });

  it("a call beyond a driver's limit gets 503, and over gRPC a retry delay", async () => {
    await eventually(async () => expect((await scene.send("POST", `${B}/fine`)).body).to.equal('"fine"'));
    const abort = new AbortController();
    const options = { signal: abort.signal, deadlineMs: 100_000 };
    const busy = [1, 2].map(() =>
      scene.vendors.callMethod({ target: nodeTarget(), method: "deaf" }, options).catch(() => {}),
    );
    const refused = await eventually(async () => {
      const answer = await scene.send("POST", `${B}/fine`);
      expect(answer.status, answer.body).to.equal(503);
      return answer;
    });
    expect(faultOf(refused).faultstring).to.contain("2 calls of the driver run, its limit");
    expect(refused.headers["retry-after"]).to.equal("1");
    const call = scene.vendors.callMethod({ target: nodeTarget(), method: "fine" });
    expect((await rejection(call, ResourceExhaustedError)).retryAfterMs).to.equal(1_000);
    abort.abort();
    await Promise.all(busy);
  });

  it("the task of a driver that ends while its child holds the pipes ends, and the node is free", async () => {
    const taskId = await eventually(async () => {
      const started = await scene.send("POST", `${B}/deaf_task`);
      expect(started.status, started.body).to.equal(202);
      return taskOf(started);
    });
    await scene.called(taskId);
    const left = await scene.send("POST", `${B}/leave_child`, { hidden: true, exits: true });
    const { pid } = JSON.parse(left.body);
    try {
      const { state, result } = await scene.ended(taskId);
      expect([state, result]).to.deep.equal([
        "TASK_STATE_ERROR",
        "the driver ended while the method ran, and the method's outcome is not known: its process exited with code 3",
      ]);
      await eventually(async () => expect((await scene.state()).reservation).to.equal(null));
      await eventually(async () => expect((await scene.send("POST", `${B}/fine`)).body).to.equal('"fine"'));
    } finally {
      // Where there are control groups, the child has ended with its driver.
      if (existsSync(`/proc/${pid}`)) process.kill(pid, "SIGKILL");
    }
  });
});
