import { ManualClock } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { Changes, Watch } from "./changes.js";

describe("changes", () => {
  const state = () => ({ changes: new Changes<string>(), clock: new ManualClock() });

  it("are found when they come, only for the same key", async () => {
    const { changes, clock } = state();
    let looks = 0;
    let found: string | undefined;
    const look = (): string | undefined => {
      looks++;
      return found;
    };
    const waiting = changes.until("a", look, { timeoutMs: 1_000, clock });
    changes.touch("b");
    await clock.advance(1);
    expect(looks).to.equal(1);
    found = "it";
    changes.touch("a");
    expect(await waiting).to.equal("it");
    expect(looks).to.equal(2);
    expect(clock.sleepers, "timers left").to.equal(0);
  });

  it("are not missed during a check", async () => {
    const { changes, clock } = state();
    const answers = [undefined, "second look"];
    const find = async (): Promise<string | undefined> => {
      const answer = answers.shift();
      if (answer === undefined) changes.touch("a");
      return answer;
    };
    expect(await changes.until("a", find, { timeoutMs: 1_000, clock })).to.equal("second look");
  });

  it("are checked a last time at the timeout, which returns undefined", async () => {
    const { changes, clock } = state();
    let looks = 0;
    const waiting = changes.until("a", () => void looks++, { timeoutMs: 1_000, clock });
    await clock.advance(1_000);
    expect(await waiting).to.equal(undefined);
    expect(looks).to.equal(2);
  });

  it("reject an aborted wait with the reason", async () => {
    const { changes, clock } = state();
    const gone = new AbortController();
    const waiting = changes.until("a", () => undefined, { timeoutMs: 1_000, clock, signal: gone.signal });
    gone.abort(new Error("left"));
    expect(await waiting.catch((error: Error) => error.message)).to.equal("left");
    expect(clock.sleepers).to.equal(0);
    const watch = new Watch();
    expect(await watch.changed(gone.signal).catch((error: Error) => error.message)).to.equal("left");
  });

  it("reject a wait with the error of its check", async () => {
    const { changes, clock } = state();
    const find = () => {
      throw new Error("broken");
    };
    const thrown = await changes.until("a", find, { timeoutMs: 1_000, clock }).catch((error: Error) => error.message);
    expect(thrown).to.equal("broken");
  });

  it("are signalled to every watch, once", async () => {
    const { changes } = state();
    using one = changes.watch("a");
    using other = changes.watch("a");
    changes.touch("a");
    changes.touch("a");
    await one.changed();
    await other.changed();
    const next = one.changed().then(() => "again");
    expect(await Promise.race([next, Promise.resolve("nothing more")])).to.equal("nothing more");
    changes.touch("a");
    expect(await next).to.equal("again");
  });
});
