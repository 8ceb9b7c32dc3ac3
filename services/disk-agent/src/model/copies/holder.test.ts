import type { DeviceId, DiskId } from "@diskmesh/domain";
import { expect } from "chai";
import { beginDraining, cut, endOfFailed } from "./cut.js";
import {
  type Holder,
  isCleanEnd,
  isServing,
  LEG_SILENCE_MS,
  LEG_TIMEOUT_MS,
  noteRequestFailed,
  type Order,
  recordFor,
  recovered,
  takeOrder,
} from "./holder.js";
import {
  bind,
  nextFilling,
  noteCopied,
  noteError,
  noteFlushed,
  noteHeard,
  noteRecorded,
  noteSettled,
  noteSilence,
  noteSuperseded,
  noteTouched,
  wordsOf,
} from "./legs.js";
import { type CopyRequest, nextStep } from "./requests.js";

const [a, b, c] = ["a", "b", "c"].map((id) => id as DeviceId) as [DeviceId, DeviceId, DeviceId];
const x = "x" as DiskId;

function order(counting: readonly DeviceId[], fields: Partial<Order["parts"][number]> = {}, revision = 1): Order {
  const part = { layout: 5, counting, copying: [], remembered: [], sessions: new Map(), ...fields };
  return { session: 9, revision, isRepair: false, parts: [part] };
}

/** Returns a holder whose copies are recorded, flushed and heard at 0. */
function serving(counting: readonly DeviceId[], fields: Partial<Order["parts"][number]> = {}): Holder {
  let holder = takeOrder(x, undefined, order(counting, fields), 0);
  for (const deviceId of [...counting, ...(fields.copying ?? [])]) {
    holder = noteHeard(holder, 0, deviceId, { bootId: "1", nowMs: 0 });
    holder = noteFlushed(noteRecorded(holder, 0, deviceId, 5), 0, deviceId, 1);
  }
  return holder;
}

const request = (kind: CopyRequest["kind"], answers: Readonly<Record<string, "sent" | "done">> = {}): CopyRequest => ({
  kind,
  part: 0,
  block: 0,
  answers: new Map(Object.entries(answers).map(([id, answer]) => [id as DeviceId, answer])),
});

function step(holder: Holder, each: CopyRequest, nowMs = 0): string {
  const next = nextStep(holder, each, nowMs);
  return next.does === "send" ? `send ${next.to}` : next.does === "acknowledge" ? `acknowledge ${next.by}` : next.does;
}

const words = (holder: Holder): readonly string[] =>
  wordsOf(holder).map((word) => ("deviceId" in word ? `${word.says} ${word.deviceId}` : word.says));

describe("requests to a disk with several copies", () => {
  const both = serving([a, b]);
  const filled = serving([a], { copying: [b] });
  const behind = noteCopied(filled, 0, b, { block: 0, blocks: 3 });
  const rows: readonly [string, Holder, CopyRequest, string][] = [
    ["a read", both, request("read"), "send a"],
    ["a read that was answered", both, request("read", { a: "done" }), "acknowledge a"],
    ["a write", both, request("write"), "send a,b"],
    ["a write that one copy has", both, request("write", { a: "done", b: "sent" }), "wait"],
    ["a write that both have", both, request("write", { a: "done", b: "done" }), "acknowledge a"],
    [
      "a write that one has, the other failed",
      noteError(both, 0, b),
      request("write", { a: "done", b: "sent" }),
      "wait",
    ],
    ["a read, the other copy failed", noteError(both, 0, b), request("read", { a: "done" }), "wait"],
    ["a write before the records", takeOrder(x, undefined, order([a]), 0), request("write"), "wait"],
    ["a write of a later session's copy", noteSuperseded(both), request("write"), "fail"],
    ["a write to a region that is not copied", filled, request("write"), "send a"],
    ["a write to a copied region", behind, request("write"), "send a,b"],
    ["a flush while regions are copied", behind, request("flush"), "send a"],
    ["a read after a failed request", noteRequestFailed(both), request("read"), "wait"],
  ];
  for (const [cause, holder, each, result] of rows)
    it(`${cause} -> ${result}`, () => {
      expect(step(holder, each)).to.equal(result);
    });

  it("a read waits while a counting copy is not heard, whatever its own copy says", () => {
    const heard = noteHeard(both, 0, a, { bootId: "1", nowMs: LEG_SILENCE_MS });
    expect(step(heard, request("read", { a: "done" }), LEG_SILENCE_MS)).to.equal("wait");
    expect(step(heard, request("read", { a: "done" }), LEG_SILENCE_MS - 1)).to.equal("acknowledge a");
  });
});

describe("copies that fail", () => {
  const both = serving([a, b]);

  it("the holder asks for the drop, and serves once the record of the new layout is written", () => {
    const failed = noteError(both, 0, b);
    expect(words(failed)).to.deep.equal(["DROP b"]);
    const dropped = takeOrder(x, failed, order([a], { layout: 6, remembered: [b] }, 2), 0);
    expect(words(dropped)).to.deep.equal([]);
    expect(words(noteRecorded(dropped, 0, a, 6))).to.deep.equal(["FOLLOWING"]);
    expect(takeOrder(x, dropped, order([a, b]), 0)).to.equal(dropped);
  });

  it("a silent copy comes back, unless its drop was said", () => {
    const heardA = noteHeard(both, 0, a, { bootId: "1", nowMs: LEG_TIMEOUT_MS });
    const silent = noteSilence(heardA, LEG_TIMEOUT_MS);
    const back = (holder: Holder) => words(noteHeard(holder, 0, b, { bootId: "1", nowMs: LEG_TIMEOUT_MS }));
    expect(back(silent)).to.deep.equal(["FOLLOWING"]);
    expect(back(bind(silent))).to.deep.equal(["DROP b"]);
  });

  it("when all are silent none is dropped, and all come back", () => {
    const silent = bind(noteSilence(both, LEG_TIMEOUT_MS));
    expect(words(silent)).to.deep.equal(["STUCK"]);
    const heard = [a, b].reduce((all, id) => noteHeard(all, 0, id, { bootId: "1", nowMs: LEG_TIMEOUT_MS }), silent);
    expect(words(heard)).to.deep.equal(["FOLLOWING"]);
  });

  it("a restarted machine has lost what was not flushed", () => {
    const reboot = (holder: Holder) => words(noteHeard(holder, 0, b, { bootId: "2", nowMs: 1 }));
    expect(reboot(both)).to.deep.equal(["FOLLOWING"]);
    const touched = noteTouched(both, 0, b, 2);
    expect(reboot(touched)).to.deep.equal(["DROP b"]);
    expect(reboot(noteFlushed(touched, 0, b, 3))).to.deep.equal(["FOLLOWING"]);
  });

  it("an end is clean when all is flushed and nothing has failed", () => {
    expect(isCleanEnd(both)).to.equal(true);
    for (const unclean of [noteTouched(both, 0, b, 2), noteRequestFailed(both), noteError(both, 0, b)])
      expect(isCleanEnd(unclean)).to.equal(false);
  });

  it("a restarted agent serves nothing before it has its order and has recorded it again", () => {
    const again = recovered(both);
    const isServed = (holder: Holder): boolean => holder.parts.every((part) => isServing(holder, part));
    expect([isServed(both), isServed(again), words(again).length]).to.deep.equal([true, false, 0]);
    const told = takeOrder(x, again, order([a, b]), 0);
    expect(isServed(told)).to.equal(false);
    expect(isServed([a, b].reduce((all, id) => noteRecorded(all, 0, id, 5), told))).to.equal(true);
  });
});

describe("copies that are filled", () => {
  it("EQUAL is said once all is copied and flushed, and binds", () => {
    let holder = serving([a], { copying: [b] });
    const next = (): unknown => nextFilling(holder, 0, holder.parts[0]?.legs[1] as never);
    for (const block of [0, 1, 2]) {
      expect(next()).to.deep.equal({ block });
      holder = noteCopied(noteCopied(holder, 0, b, { block, blocks: 3 }), 0, b, { block, blocks: 3 });
    }
    expect([next(), step(holder, request("flush"))]).to.deep.equal(["flush", "send a,b"]);
    holder = bind(noteSettled(holder, 0, b));
    expect(words(holder)).to.deep.equal(["EQUAL b", "FOLLOWING"]);
    const failed = noteError(holder, 0, b);
    expect(step(failed, request("write", { a: "done", b: "sent" }))).to.equal("wait");
    expect(words(failed)).to.deep.equal(["DROP b"]);
  });

  it("EQUAL is not said before the records of all that count name the copy", () => {
    const first = serving([a], { copying: [b] });
    expect(recordFor(first, 0, first.parts[0]?.legs[0] as never)).to.deep.include({ counting: [a], copying: [b] });
    const copied = noteSettled(noteCopied(first, 0, b, { block: 0, blocks: 1 }), 0, b);
    const unnamed = takeOrder(x, copied, order([a], { layout: 6, copying: [b, c] }, 2), 0);
    expect(words(bind(unnamed))).not.to.include("EQUAL b");
    expect(words(bind(noteRecorded(unnamed, 0, a, 6)))).to.include("EQUAL b");
  });

  it("after a failed request no copy is said to be equal, and one that was is not read", () => {
    const synced = noteSettled(noteCopied(serving([a], { copying: [b] }), 0, b, { block: 0, blocks: 1 }), 0, b);
    const failed = bind(noteRequestFailed(synced));
    expect([step(failed, request("read")), ...words(failed)]).to.deep.equal(["send a", "STUCK", "FOLLOWING"]);
    const late = noteRequestFailed(bind(synced));
    expect([step(late, request("read")), ...words(late)]).to.deep.equal(["wait", "STUCK", "EQUAL b"]);
  });

  it("a copy that fails before EQUAL holds nothing", () => {
    const failed = noteError(serving([a], { copying: [b] }), 0, b);
    expect([step(failed, request("write")), ...words(failed)]).to.deep.equal(["send a", "DROP b", "FOLLOWING"]);
  });

  it("a copy that counted and was dropped meanwhile begins anew", () => {
    const holder = takeOrder(x, noteError(serving([a, b]), 0, b), order([a], { layout: 6, copying: [b] }, 3), 0);
    expect(holder.parts[0]?.legs[1]).to.deep.include({ use: "COPYING", filling: "copying", copiedBlocks: 0 });
  });
});

describe("snapshots", () => {
  const snapshot = { jobId: "j", diskId: "y" as DiskId, targets: [c], targetSession: 12 };
  const job = takeOrder(x, serving([a, b]), { ...order([a, b], {}, 2), snapshot }, 0);
  const recorded = noteRecorded(job, 0, c, 5);
  const synced = noteSettled(noteCopied(recorded, 0, c, { block: 0, blocks: 1 }), 0, c);

  it("the cut waits for writes in flight, while no other begins", () => {
    expect(beginDraining(recorded)).to.equal(recorded);
    const draining = beginDraining(synced);
    expect(step(draining, request("write"))).to.equal("wait");
    expect(step(draining, request("write", { a: "done", b: "done", c: "done" }))).to.equal("acknowledge a");
    expect(cut(draining, 1)).to.equal(draining);
    expect(cut(noteError(draining, 0, b), 0).snapshot?.phase).to.equal("draining");
  });

  it("a cut target is not written, and said to be a disk once its record says so", () => {
    const done = cut(beginDraining(synced), 0);
    expect(step(done, request("write"))).to.equal("send a,b");
    expect(words(done)).not.to.include("CUT");
    const ended = noteFlushed(noteRecorded(done, 0, c, 12), 0, c, 9);
    expect(words(ended)).to.include("CUT");
    const again = takeOrder(x, ended, { ...order([a, b], {}, 3), snapshot }, 0);
    expect(step(again, request("write"))).to.equal("send a,b");
  });

  it("a target that fails ends the snapshot and nothing else, and so does a failed request before the cut", () => {
    expect(words(endOfFailed(noteRequestFailed(cut(beginDraining(synced), 0))))).not.to.include("SNAPSHOT_FAILED");
    expect(words(endOfFailed(noteRequestFailed(synced)))).to.include("SNAPSHOT_FAILED");
    const failed = endOfFailed(noteError(synced, 0, c));
    expect(words(failed)).to.deep.equal(["SNAPSHOT_FAILED", "FOLLOWING"]);
    expect(step(failed, request("write"))).to.equal("send a,b");
  });
});
