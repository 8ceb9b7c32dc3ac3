import { AlreadyExistsError, type Identity } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { DirectorTablet } from "../store/stored-schema.js";
import { newTask } from "../tasks/task.js";
import { openState } from "../testing/open-state.js";
import { earlierTask, type RepeatableCall, rememberCall } from "./repeated-calls.js";

const ANN = { identity: { role: "operator", name: "ann" } as Identity };
const BOB = { identity: { role: "operator", name: "bob" } as Identity };
const CALL: RepeatableCall = {
  requestId: "r-1",
  target: { kind: "node", nodeId: "host-1" },
  method: "login",
  httpMethod: "POST",
  args: { user: { first: "a", last: "b" }, password: "hunter2", force: true },
};
const SECRET_ARGS = ["password"];
const MAX_REMEMBERED = 10_000;

describe("a repeated call of a vendor method", () => {
  let tablet: DirectorTablet;
  beforeEach(async () => {
    ({ tablet } = await openState());
    await remember(7, CALL);
  });
  afterEach(() => tablet.close());

  const remember = (taskId: number, call: RepeatableCall) =>
    tablet.transact((tx) => rememberCall(tx, ANN, call, { taskId, secretArgs: SECRET_ARGS }));
  const earlier = (changed: Partial<RepeatableCall> = {}, caller = ANN) =>
    tablet.read((tables) => earlierTask(tables, caller, { ...CALL, ...changed }));

  it("gets the first call's task, whatever the order of its arguments' fields", async () => {
    expect(await earlier()).to.equal(7);
    const args = { password: "hunter2", force: true, user: { last: "b", first: "a" } };
    expect(await earlier({ args })).to.equal(7);
  });

  it("gets no task with another request id, or of another caller", async () => {
    expect(await earlier({ requestId: "r-2" })).to.equal(undefined);
    expect(await earlier({ requestId: "" })).to.equal(undefined);
    expect(await earlier({}, BOB)).to.equal(undefined);
  });

  for (const [what, changed] of Object.entries({
    target: { target: { kind: "node", nodeId: "host-2" } },
    method: { method: "logout" },
    verb: { httpMethod: "PUT" },
    argument: { args: { ...CALL.args, force: false } },
    "nested argument": { args: { ...CALL.args, user: { first: "a", last: "c" } } },
    "missing argument": { args: { user: CALL.args.user } },
  }))
    it(`is refused with another ${what}`, async () => {
      const { about } = await rejection(earlier(changed), AlreadyExistsError, "request_id r-1 belongs to another call");
      expect(about).to.deep.equal({ request_id: "r-1", task_id: "7" });
    });

  it("may have another secret argument, which leaves no trace in the store", async () => {
    expect(await earlier({ args: { ...CALL.args, password: "other" } })).to.equal(7);
    await remember(8, { ...CALL, requestId: "r-2", args: { ...CALL.args, password: "other" } });
    const digests = await tablet.read(({ vendorCalls }) => [...vendorCalls.entries()].map(({ digest }) => digest));
    expect(new Set(digests)).to.have.property("size", 1);
  });

  it("is a new call once it is the oldest of too many, unless its task is live", async () => {
    const LIVE = 8;
    await remember(LIVE, { ...CALL, requestId: "live" });
    await tablet.transact((tx) => {
      const job = { type: "tell_agents", agentIds: [] } as const;
      const rest = { description: "", queue: "vendor_methods", user: "ann", deployment: "" } as const;
      tx.tasks.put(newTask({ taskId: LIVE, job, ...rest }, 0));
      for (let taskId = LIVE + 1; tx.vendorCalls.size < MAX_REMEMBERED; taskId++)
        tx.vendorCalls.put({ taskId, request: `operator ann of-${taskId}`, digest: "", secretArgs: [] });
    });
    expect(await earlier()).to.equal(7);
    await remember(20_001, { ...CALL, requestId: "new-1" });
    await remember(20_002, { ...CALL, requestId: "new-2" });
    expect(await earlier()).to.equal(undefined);
    expect(await earlier({ requestId: "live" })).to.equal(LIVE);
  });
});
