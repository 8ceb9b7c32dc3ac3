import { expect } from "chai";
import { LastChanges } from "./past-changes.js";

const commit = (at: number) => ({ commit: { journal: 1, at }, atMs: at, cause: "test" });

function told(...documents: (object | null)[]) {
  const last = new LastChanges(100);
  for (const [at, document] of documents.entries()) last.add({ ...commit(at), document });
  return last.end(false).changes.map(({ details }) => details.join("; "));
}

describe("kept changes in words", () => {
  it("name the changed fields with their values before and after, newest first", () => {
    const device = { deviceId: "d", attachState: "ATTACHED", health: "ONLINE", removalRequested: false };
    const leaving = {
      ...device,
      attachState: "CLOSING",
      removalRequested: true,
      removalRequestedAtMs: 0,
      said: { atMs: 0 },
    };
    expect(told(device, leaving, null, device)).to.deep.equal([
      "created; attach state ATTACHED; health ONLINE; removal requested no",
      "deleted",
      "attach state ATTACHED -> CLOSING; removal requested no -> yes; removal requested at none -> 1970-01-01T00:00:00Z; said at none -> 1970-01-01T00:00:00Z",
      "the first change that is kept; attach state ATTACHED; health ONLINE; removal requested no",
    ]);
  });

  it("name the parts, copies and sizes of a disk, and leave out fields that restate the time", () => {
    const disk = (state: string, sizeBytes: number, stateChangedAtMs: number) => ({
      sizeBytes,
      stateChangedAtMs,
      parts: [{ copies: [{ deviceId: "d1", state }] }],
    });
    expect(told(disk("COPYING", 1_048_576, 1), disk("COUNTS", 2_097_152, 2))[0]).to.equal(
      "size 1 MiB -> 2 MiB; part 1 copy d1 state COPYING -> COUNTS",
    );
  });

  it("end after 16 fields, and values after 200 characters", () => {
    const many = (value: string) => Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`field${n}`, value]));
    const [change = ""] = told(many("a"), many("b".repeat(300)));
    expect(change)
      .to.contain(`field0 a -> ${"b".repeat(200)}...; `)
      .and.to.match(/; and 15 other fields$/);
  });

  it("are the last ones of a page, with the commit before which older ones are", () => {
    const last = new LastChanges(2);
    for (let at = 0; at < 5; at++) last.add({ ...commit(at), document: { state: String(at) } });
    const { changes, olderThan } = last.end(true);
    expect(changes.map(({ details }) => details)).to.deep.equal([["state 3 -> 4"], ["state 2 -> 3"]]);
    expect(olderThan).to.deep.equal({ journal: 1, at: 3 });
    const only = new LastChanges(1);
    only.add({ ...commit(0), document: { state: "A" } });
    expect(only.end(true).changes[0]?.details).to.deep.equal(["created", "state A"]);
    expect(new LastChanges(2).end(true)).to.deep.equal({ changes: [], olderThan: undefined });
  });
});
