import { expect } from "chai";
import { type Guest, Room, type Share } from "./room.js";

const LIMITS = { capacity: 10, reserve: 2, perPeer: 4 };

interface Named extends Guest {
  readonly name: string;
}

function call(name: string, over: Partial<Guest> = {}): Named {
  return { name, share: "others", peer: undefined, idleSinceMs: undefined, ...over };
}

function fill(room: Room<Named>, count: number, over: Partial<Guest> = {}): Named[] {
  const calls = Array.from({ length: count }, (_, index) => call(`filler ${index}`, over));
  for (const one of calls) expect(room.enter(one, 0)).to.deep.equal({ evicted: undefined });
  return calls;
}

describe("admission of calls", () => {
  it("refuses others when the shared places are full, while each reserved share still has its places", () => {
    const room = new Room<Named>(LIMITS);
    fill(room, 4);
    expect(room.enter(call("one too many"), 0)).to.deep.equal({ full: "room" });
    for (const share of ["orders", "reports", "operator reads"] as const) fill(room, 2, { share });
    expect(room.size).to.equal(10);
    for (const share of ["orders", "reports", "operator reads", "others"] as Share[])
      expect(room.enter(call(share, { share }), 0), share).to.deep.equal({ full: "room" });
  });

  it("lets a share use shared places beyond its reserve, and no more", () => {
    const room = new Room<Named>(LIMITS);
    fill(room, 6, { share: "orders" });
    expect(room.enter(call("an order too many", { share: "orders" }), 0)).to.deep.equal({ full: "room" });
    expect(room.enter(call("an other"), 0)).to.deep.equal({ full: "room" });
    fill(room, 2, { share: "reports" });
  });

  it("limits each peer to its own places, however many are free", () => {
    const room = new Room<Named>({ ...LIMITS, capacity: 100 });
    const [first] = fill(room, 4, { peer: "operator a" });
    expect(room.enter(call("fifth", { peer: "operator a" }), 0)).to.deep.equal({ full: "peer" });
    fill(room, 4, { peer: "operator b" });
    if (first) room.leave(first);
    fill(room, 1, { peer: "operator a" });
  });

  it("evicts the longest idle stream unless it was idle too briefly or has a deadline", () => {
    const room = new Room<Named>(LIMITS);
    const calls = [call("busy"), call("30", { idleSinceMs: 30 }), call("20", { idleSinceMs: 20 }), call("busy too")];
    for (const one of calls) room.enter(one, 0);
    expect(room.enter(call("early"), 19)).to.deep.equal({ full: "room" });
    expect(room.enter(call("next"), 40)).to.deep.equal({ evicted: calls[2] });
    expect(room.enter(call("and next"), 40)).to.deep.equal({ evicted: calls[1] });
    expect(room.enter(call("none left"), 40)).to.deep.equal({ full: "room" });
    expect(room.size).to.equal(4);
  });

  it("keeps idle streams in reserved places; a peer at its own limit loses its own stream, not another's", () => {
    const room = new Room<Named>(LIMITS);
    fill(room, 2, { share: "operator reads", idleSinceMs: 1 });
    fill(room, 4, { peer: "agent a", idleSinceMs: 5 });
    const entry = room.enter(call("of another", { peer: "agent b" }), 100);
    expect(entry).to.have.nested.property("evicted.peer", "agent a");
    const own = new Room<Named>({ ...LIMITS, capacity: 100 });
    fill(own, 1, { peer: "agent b", idleSinceMs: 1 });
    fill(own, 4, { peer: "agent a", idleSinceMs: 5 });
    expect(own.enter(call("more", { peer: "agent a" }), 100)).to.have.nested.property("evicted.peer", "agent a");
  });

  it("counts a call that leaves twice once", () => {
    const room = new Room<Named>(LIMITS);
    const [first] = fill(room, 4, { peer: "x" });
    for (let times = 0; times < 2; times++) if (first) room.leave(first);
    expect(room.size).to.equal(3);
    fill(room, 1, { peer: "x" });
    expect(room.enter(call("more", { peer: "x" }), 0)).to.deep.equal({ full: "peer" });
  });
});
