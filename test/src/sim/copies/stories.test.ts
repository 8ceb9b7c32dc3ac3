import {
  type Holder,
  nextStep,
  noteFlushed,
  noteHeard,
  noteRecorded,
  noteSilence,
  takeOrder,
  wordsOf,
} from "@diskmesh/disk-agent/simulation";
import {
  acceptDroppedCopy,
  addCopy,
  beginFence,
  beginPublication,
  type CopiedDisk,
  completeSession,
  dropCopy,
  noteConfirmed,
  noteEqual,
  noteTargetGrant,
  orderOf,
} from "@diskmesh/disk-registry/simulation";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { expect } from "chai";

const [a, b] = ["a", "b"] as unknown as [DeviceId, DeviceId];
const [onA, onB] = ["host-a", "host-b"] as unknown as [HostId, HostId];
const diskId = "x" as DiskId;

const twoCopies: CopiedDisk = {
  diskId,
  copiesWished: 2,
  lastSession: 1,
  parts: [{ layout: 1, copies: [a, b].map((deviceId) => ({ deviceId, state: "COUNTS" })) }],
};

/** Completes a session: `granted` answered, `excused` may be dropped. */
function complete(
  disk: CopiedDisk,
  granted: readonly DeviceId[],
  excused: readonly DeviceId[] = [],
): CopiedDisk | undefined {
  const grants = new Map(granted.map((deviceId) => [deviceId, { saysCounts: true }]));
  return completeSession(disk, { granted: grants, excused: new Set(excused), nowMs: 0, layout: disk.lastSession + 1 });
}

/** Returns a holder that serves the disk, at time 0. */
function serve(disk: CopiedDisk): Holder {
  const order = orderOf(disk);
  if (order === undefined) throw new Error("nobody may serve the disk");
  let holder = takeOrder(diskId, undefined, order, 0);
  for (const { deviceId } of holder.parts[0]?.legs ?? []) {
    holder = noteHeard(holder, 0, deviceId, { bootId: "1", nowMs: 0 });
    holder = noteRecorded(holder, 0, deviceId, order.parts[0]?.layout ?? 0);
  }
  return holder;
}

const write = (holder: Holder, done: readonly DeviceId[], nowMs: number): string => {
  const answers = new Map(done.map((deviceId) => [deviceId, "done" as const]));
  return nextStep(holder, { kind: "write", part: 0, block: 0, answers }, nowMs).does;
};

const statesOf = (disk: CopiedDisk | undefined): string | undefined =>
  disk?.parts[0]?.copies.map(({ deviceId, state }) => `${deviceId} ${state}`).join(", ");

/** Returns the disk in which `b` was dropped while `a` served, and `a` alone has what was written since. */
function afterDrop(): CopiedDisk {
  const published = complete(beginPublication(twoCopies, { hostId: onA }, 2), [a, b]) as CopiedDisk;
  const { session, revision } = published.publication as { session: number; revision: number };
  const answer = dropCopy(published, { part: 0, deviceId: b, session, revision }, { layout: 3, nowMs: 0 });
  if (answer.is !== "dropped") throw new Error(`the drop was ${answer.is}`);
  return answer.disk;
}

describe("stories of lost writes", () => {
  it("longhorn#6277: what a holder acknowledged while it was cut off is not discarded, because it acknowledges nothing", () => {
    const published = complete(beginPublication(twoCopies, { hostId: onA }, 2), [a, b]) as CopiedDisk;
    let cutOff = serve(published);
    expect(write(cutOff, [a, b], 0)).to.equal("acknowledge");

    // The holder's host hears nobody. Its own copy has the next write, and its user waits.
    const laterMs = 60_000;
    cutOff = noteHeard(cutOff, 0, a, { bootId: "1", nowMs: laterMs });
    cutOff = noteSilence(cutOff, laterMs);
    expect(write(cutOff, [a], laterMs)).to.equal("wait");

    // The registry fences the host, without its copy, and publishes to the other one.
    const fenced = complete(beginFence(published, 4), [b], [a]) as CopiedDisk;
    expect(statesOf(fenced)).to.equal("a DROPPED, b COUNTS");
    const elsewhere = complete(beginPublication(fenced, { hostId: onB }, 6), [b]) as CopiedDisk;
    expect(write(serve(elsewhere), [b], laterMs)).to.equal("acknowledge");

    // The host is back. Its request to drop the other copy is of an old session, and its copy is not asked.
    const [word] = wordsOf(cutOff);
    expect(word).to.include({ says: "DROP", deviceId: b });
    const drop = { part: 0, deviceId: b, session: cutOff.session, revision: cutOff.revision };
    expect(dropCopy(elsewhere, drop, { layout: 8, nowMs: 0 })).to.include({ is: "refused", why: "OUTDATED" });
    expect(statesOf(complete(beginPublication(elsewhere, { hostId: onA }, 9), [a, b]))).to.equal("a DROPPED, b COUNTS");
  });

  it("the copy of a host said to be DEAD is not believed when it is back, except by a former holder that is cut off", () => {
    const dropped = afterDrop();
    const former = serve(dropped);
    expect(write(former, [a], 0)).to.equal("acknowledge");

    // The host of the copy that counts loses its power, and the holder is cut off. A person says DEAD, and accepts the other copy.
    const waits = beginPublication({ ...dropped, publication: undefined }, { hostId: onB }, 4);
    const word = { layout: 5, wordOn: () => "SAID_DEAD" as const };
    const answer = acceptDroppedCopy(waits, { part: 0, deviceId: b }, word);
    const accepted = answer.is === "accepted" ? answer.disk : waits;
    const elsewhere = complete(accepted, [b], [a]) as CopiedDisk;
    expect(statesOf(elsewhere)).to.equal("a LEAVING, b COUNTS");

    // The host is back. The registry has its copy erased. Until then the former holder is not told that its session is over.
    expect(statesOf(complete(beginPublication(elsewhere, { hostId: onA }, 6), [a, b]))).to.equal("a LEAVING, b COUNTS");
    const back = noteHeard(former, 0, a, { bootId: "2", nowMs: 60_000 });
    expect(write(back, [a], 60_000)).to.equal("wait");
    const flushed = noteHeard(noteFlushed(former, 0, a, 2), 0, a, { bootId: "2", nowMs: 60_000 });
    expect(write(flushed, [a], 60_000)).to.equal("acknowledge");
  });

  it("a stale copy that is back alone is not published, and counts only once it was copied anew", () => {
    const alone = beginFence(afterDrop(), 4);

    // The host of the copy that counts is away. The stale copy is back, and grants.
    expect(complete(alone, [b], [a])).to.equal(undefined);

    // The copy that counts is back, too.
    const fenced = complete(alone, [a, b]) as CopiedDisk;
    const again = complete(beginPublication(fenced, { hostId: onB }, 6), [a, b]) as CopiedDisk;
    expect(statesOf(again)).to.equal("a COUNTS, b DROPPED");

    // It is filled under a session of its own. An EQUAL of another revision, or before the grant, comes to nothing.
    const added = addCopy(again, 0, b, 7);
    expect(statesOf(added)).to.equal("a COUNTS, b COPYING");
    const equal = { part: 0, deviceId: b, session: 6, revision: added.publication?.revision ?? 0 };
    expect(noteEqual(added, equal, 8)).to.equal(undefined);
    const granted = noteTargetGrant(added, 0, b, { session: 7, layout: 8 });
    expect(noteEqual(granted, equal, 8)).to.equal(undefined);
    const counted = noteEqual(granted, { ...equal, revision: equal.revision + 1 }, 9);
    expect(statesOf(counted)).to.equal("a COUNTS, b COUNTS");
    expect(counted && noteConfirmed(counted, { session: 6, revision: 3 }).publication?.confirmedRevision).to.equal(3);
  });
});
