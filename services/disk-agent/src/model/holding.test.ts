import { expect } from "chai";
import { type HoldingEvent, type HoldingPhase, nextHolding } from "./holding.js";

const W = { wanted: true, idle: true };
const BUSY = { wanted: false, idle: false };
const IDLE = { wanted: false, idle: true };

describe("nextHolding", () => {
  const rows: [string, HoldingPhase, HoldingEvent, typeof W, HoldingPhase, ("open" | "close")?][] = [
    ["wanted -> opens", "closed", "changed", W, "opening", "open"],
    ["not wanted -> stays closed", "closed", "changed", IDLE, "closed"],
    ["opened and wanted -> open", "opening", "opened", W, "open"],
    ["opened late, after a detach -> closes", "opening", "opened", IDLE, "closing", "close"],
    ["no longer wanted while opening -> waits for the open", "opening", "changed", IDLE, "opening"],
    ["open failed -> closed", "opening", "open_failed", IDLE, "closed"],
    ["still wanted -> stays open", "open", "changed", W, "open"],
    ["let go while idle -> closes", "open", "changed", IDLE, "closing", "close"],
    ["let go while I/O is in flight -> drains", "open", "changed", BUSY, "draining"],
    ["I/O still in flight -> keeps draining", "draining", "changed", BUSY, "draining"],
    ["last I/O ended -> closes", "draining", "changed", IDLE, "closing", "close"],
    ["wanted again while draining -> open", "draining", "changed", { wanted: true, idle: false }, "open"],
    ["wanted again while closing -> waits for the close", "closing", "changed", W, "closing"],
    ["closed and wanted again -> opens", "closing", "closed", W, "opening", "open"],
    ["closed and not wanted -> closed", "closing", "closed", IDLE, "closed"],
  ];
  for (const [title, phase, event, facts, next, effect] of rows)
    it(`${phase}: ${title}`, () => {
      expect(nextHolding(phase, event, facts)).to.deep.equal({ phase: next, ...(effect && { effect }) });
    });

  const impossible: [HoldingPhase, HoldingEvent][] = [
    ["closed", "opened"],
    ["closed", "open_failed"],
    ["closed", "closed"],
    ["opening", "closed"],
    ["open", "opened"],
    ["open", "open_failed"],
    ["open", "closed"],
    ["draining", "opened"],
    ["draining", "open_failed"],
    ["draining", "closed"],
    ["closing", "opened"],
    ["closing", "open_failed"],
  ];
  for (const [phase, event] of impossible)
    it(`${phase}: ${event} -> throws`, () => {
      expect(() => nextHolding(phase, event, W)).to.throw(`in phase ${phase} got the impossible event ${event}`);
    });
});
