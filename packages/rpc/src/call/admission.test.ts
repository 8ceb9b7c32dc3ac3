import { expect } from "chai";
import { Admission, type CallGroup, type CountedCall } from "./admission.js";

const LIMITS = { capacity: 10, reserve: 2, perPeer: 4 };

interface Named extends CountedCall {
  readonly name: string;
}

function call(name: string, over: Partial<CountedCall> = {}): Named {
  return { name, group: "others", peer: undefined, idleSinceMs: undefined, ...over };
}

function fill(admission: Admission<Named>, count: number, over: Partial<CountedCall> = {}): Named[] {
  const calls = Array.from({ length: count }, (_, index) => call(`filler ${index}`, over));
  for (const one of calls) expect(admission.enter(one, 0)).to.deep.equal({ evicted: undefined });
  return calls;
}

describe("admission of calls", () => {
  it("refuses others when the shared places are full, while each reserved group still has its places", () => {
    const admission = new Admission<Named>(LIMITS);
    fill(admission, 4);
    expect(admission.enter(call("one too many"), 0)).to.deep.equal({ full: "server" });
    for (const group of ["orders", "reports", "operator reads"] as const) fill(admission, 2, { group });
    expect(admission.size).to.equal(10);
    for (const group of ["orders", "reports", "operator reads", "others"] as CallGroup[])
      expect(admission.enter(call(group, { group }), 0), group).to.deep.equal({ full: "server" });
  });

  it("lets a group use shared places beyond its reserve, and no more", () => {
    const admission = new Admission<Named>(LIMITS);
    fill(admission, 6, { group: "orders" });
    expect(admission.enter(call("an order too many", { group: "orders" }), 0)).to.deep.equal({ full: "server" });
    expect(admission.enter(call("an other"), 0)).to.deep.equal({ full: "server" });
    fill(admission, 2, { group: "reports" });
  });

  it("limits each peer to its own places, however many are free", () => {
    const admission = new Admission<Named>({ ...LIMITS, capacity: 100 });
    const [first] = fill(admission, 4, { peer: "operator a" });
    expect(admission.enter(call("fifth", { peer: "operator a" }), 0)).to.deep.equal({ full: "peer" });
    fill(admission, 4, { peer: "operator b" });
    if (first) admission.leave(first);
    fill(admission, 1, { peer: "operator a" });
  });

  it("evicts the longest idle stream unless it was idle too briefly or has a deadline", () => {
    const admission = new Admission<Named>(LIMITS);
    const calls = [call("busy"), call("30", { idleSinceMs: 30 }), call("20", { idleSinceMs: 20 }), call("busy too")];
    for (const one of calls) admission.enter(one, 0);
    expect(admission.enter(call("early"), 19)).to.deep.equal({ full: "server" });
    expect(admission.enter(call("next"), 40)).to.deep.equal({ evicted: calls[2] });
    expect(admission.enter(call("and next"), 40)).to.deep.equal({ evicted: calls[1] });
    expect(admission.enter(call("none left"), 40)).to.deep.equal({ full: "server" });
    expect(admission.size).to.equal(4);
  });

  it("keeps idle streams in reserved places; a peer at its own limit loses its own stream, not another's", () => {
    const admission = new Admission<Named>(LIMITS);
    fill(admission, 2, { group: "operator reads", idleSinceMs: 1 });
    fill(admission, 4, { peer: "agent a", idleSinceMs: 5 });
    const entry = admission.enter(call("of another", { peer: "agent b" }), 100);
    expect(entry).to.have.nested.property("evicted.peer", "agent a");
    const own = new Admission<Named>({ ...LIMITS, capacity: 100 });
    fill(own, 1, { peer: "agent b", idleSinceMs: 1 });
    fill(own, 4, { peer: "agent a", idleSinceMs: 5 });
    expect(own.enter(call("more", { peer: "agent a" }), 100)).to.have.nested.property("evicted.peer", "agent a");
  });

  it("counts a call that leaves twice once", () => {
    const admission = new Admission<Named>(LIMITS);
    const [first] = fill(admission, 4, { peer: "x" });
    for (let times = 0; times < 2; times++) if (first) admission.leave(first);
    expect(admission.size).to.equal(3);
    fill(admission, 1, { peer: "x" });
    expect(admission.enter(call("more", { peer: "x" }), 0)).to.deep.equal({ full: "peer" });
  });
});
