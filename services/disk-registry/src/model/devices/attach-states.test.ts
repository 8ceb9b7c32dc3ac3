import { expect } from "chai";
import { aDevice, TestFleet } from "../../testing/fleet-fixture.js";
import type { AttachState } from "../store/schema.js";
import { type AttachEvent, advance, TRANSITIONS, transitionOf } from "./attach-states.js";

const STATES: readonly AttachState[] = ["UNKNOWN", "ATTACHING", "ATTACHED", "CLOSING", "DETACHED"];

// Repeats the transition table in another form, so that an error in either one fails this test.
const EXPECTED: readonly [AttachEvent, string, string][] = [
  ["add", "UNKNOWN DETACHED CLOSING", "ATTACHING next"],
  ["add", "ATTACHING", "ATTACHING same"],
  ["add", "ATTACHED", "ATTACHED same"],
  ["replacement_accepted", "ATTACHING ATTACHED", "ATTACHING next"],
  ["attach_confirmed", "ATTACHING", "ATTACHED same"],
  ["attach_failed", "ATTACHING", "ATTACHING same"],
  ["registered_without", "ATTACHED", "ATTACHING next"],
  ["refused", "ATTACHING ATTACHED", "CLOSING next"],
  ["remove", "ATTACHING ATTACHED", "CLOSING next"],
  ["remove", "CLOSING", "CLOSING same"],
  ["remove", "DETACHED", "DETACHED same"],
  ["remove", "UNKNOWN", "UNKNOWN same"],
  ["detach_confirmed", "CLOSING", "DETACHED same"],
  ["removal_timeout", "CLOSING", "DETACHED same"],
  ["purge", "UNKNOWN ATTACHING ATTACHED CLOSING DETACHED", "UNKNOWN next"],
];

function expectedOf(event: AttachEvent, state: AttachState): string | undefined {
  return EXPECTED.find(([candidate, from]) => candidate === event && from.split(" ").includes(state))?.[2];
}

describe("attach states", () => {
  for (const event of Object.keys(TRANSITIONS) as AttachEvent[]) {
    for (const state of STATES) {
      const expected = expectedOf(event, state);
      it(`${event} on ${state} -> ${expected ?? "throws"}`, () => {
        if (expected === undefined) {
          expect(() => transitionOf(state, event)).to.throw(`${event} cannot happen to a device that is ${state}`);
          return;
        }
        const { to, generation } = transitionOf(state, event);
        expect(`${to} ${generation}`).to.equal(expected);
      });
    }
  }

  it("a transition with the next generation stores the counter's value and clears the former order's state", () => {
    const fleet = new TestFleet({ generation: 41 });
    const before = aDevice("d1", {
      attempts: 3,
      lastError: "no",
      generation: 9,
      detachConfirmed: true,
      attachState: "DETACHED",
    });
    const after = fleet.transact((tx) => advance(tx, before, "add", 5_000));
    expect(after).to.deep.include({
      attachState: "ATTACHING",
      generation: 42,
      attempts: 0,
      lastError: "",
      detachConfirmed: false,
      stateChangedAtMs: 5_000,
    });
    expect(fleet.tables.counters.get("device_generation")?.value).to.equal(42);
  });

  it("a transition to the same generation and state returns the same document and uses no generation", () => {
    const fleet = new TestFleet({ generation: 41 });
    const before = aDevice("d1");
    expect(fleet.transact((tx) => advance(tx, before, "add", 5_000))).to.equal(before);
    expect(fleet.tables.counters.get("device_generation")?.value).to.equal(41);
  });

  it("a throw inside a transaction uses up no generation", () => {
    const fleet = new TestFleet({ generation: 41 });
    const failing = (): unknown =>
      fleet.transact((tx) => {
        advance(tx, aDevice("d1", { attachState: "UNKNOWN" }), "add", 0);
        throw new Error("afterwards");
      });
    expect(failing).to.throw("afterwards");
    expect(fleet.tables.counters.get("device_generation")?.value).to.equal(41);
  });
});
