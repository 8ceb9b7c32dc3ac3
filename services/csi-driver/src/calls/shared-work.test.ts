import { setTimeout as delay } from "node:timers/promises";
import { AbortedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { Gate } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedWork } from "./shared-work.js";

const CALL = { deadlineAtMs: Number.POSITIVE_INFINITY, requestId: "r" };

describe("work on a volume", () => {
  let work: SharedWork;
  let begun: string[];
  let gate: Gate;

  beforeEach(() => {
    work = new SharedWork();
    begun = [];
    gate = new Gate();
  });

  function run(request: object, call = CALL, volumeId = "v"): Promise<string> {
    return work.run(volumeId, "Stage", request, call, async () => {
      const name = JSON.stringify(request);
      begun.push(name);
      await gate.pass();
      return name;
    });
  }

  it("is joined by the same request, also with other secrets and its map in another order", async () => {
    const first = run({ map: { a: 1, b: 2 }, secrets: { key: "one" } });
    const second = run({ map: { b: 2, a: 1 }, secrets: { key: "two" } });
    gate.release();
    expect(await second).to.equal(await first);
    expect(begun).to.have.length(1);
  });

  it("ends before another request of the volume begins; other volumes do not wait", async () => {
    const first = run({ path: "a" });
    const second = run({ path: "b" });
    const elsewhere = run({ path: "c" }, CALL, "w");
    await delay(20);
    expect(begun).to.deep.equal(['{"path":"a"}', '{"path":"c"}']);
    gate.release();
    expect(await Promise.all([first, second, elsewhere])).to.have.length(3);
    expect(begun.at(-1)).to.equal('{"path":"b"}');
  });

  it("continues after the caller's deadline, whose answer names it, and is joined by the next request", async () => {
    const late = { ...CALL, deadlineAtMs: Date.now() + 50 };
    await rejection(run({ path: "a" }, late), AbortedError, "Stage of volume v has been running for 0 s");
    const joined = run({ path: "a" });
    gate.release();
    expect(await joined).to.equal('{"path":"a"}');
    expect(begun).to.have.length(1);
  });

  it("names what the volume waits for, if it is known in time", async () => {
    const answers: Record<string, () => Promise<string | undefined>> = {
      v: async () => "host h1 is silent",
      w: async () => undefined,
      x: () => Promise.reject(new AbortedError("the director is away")),
      y: () => new Promise(() => {}),
    };
    work = new SharedWork((volumeId) => answers[volumeId]?.() ?? expect.fail(volumeId));
    const late = { ...CALL, deadlineAtMs: Date.now() + 200 };
    const said = (volumeId: string) =>
      run({}, late, volumeId).catch((error: Error) => error.message.replace(/\d+ s/, "N s"));
    const rest = "; repeat the request to wait for its end";
    expect(await Promise.all(Object.keys(answers).map(said))).to.deep.equal([
      `Stage of volume v has been running for N s: host h1 is silent${rest}`,
      ...["w", "x", "y"].map((volumeId) => `Stage of volume ${volumeId} has been running for N s${rest}`),
    ]);
  });

  it("that failed is begun again by the next request", async () => {
    const fail = () => work.run("v", "Stage", {}, CALL, () => Promise.reject(new AbortedError("once")));
    await rejection(fail(), AbortedError, "once");
    await rejection(fail(), AbortedError, "once");
    gate.release();
    expect(await run({})).to.equal("{}");
  });
});
