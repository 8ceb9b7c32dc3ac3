import { expect } from "chai";
import { isSteady, isTrouble, noteHeard, noteSilent, STEADINESS_LIMITS, steady, withDrop } from "./steadiness.js";

const MINUTE_MS = 60_000;

describe("steadiness of a host", () => {
  it("a host that comes and goes waits for a time that doubles, from a minute to an hour", () => {
    let host = steady(0);
    let nowMs = 0;
    const waits: number[] = [];
    for (let silence = 0; silence < 9; silence++) {
      host = noteHeard(noteSilent(host, nowMs + 1, STEADINESS_LIMITS), nowMs + 2);
      nowMs += 2;
      const { provesForMs } = host;
      expect(isSteady(host, nowMs + provesForMs - 1)).to.equal(false);
      expect(isSteady(host, nowMs + provesForMs)).to.equal(true);
      waits.push(provesForMs / MINUTE_MS);
    }
    expect(waits).to.deep.equal([1, 2, 4, 8, 16, 32, 60, 60, 60]);
  });

  it("a silent host is not steady, and a long calm is forgiven", () => {
    const silent = noteSilent(steady(0), 1, STEADINESS_LIMITS);
    expect(isSteady(silent, 99 * MINUTE_MS)).to.equal(false);
    expect(noteSilent(silent, 5, STEADINESS_LIMITS)).to.equal(silent);
    const calm = noteSilent(noteHeard(silent, 2), 70 * MINUTE_MS, STEADINESS_LIMITS);
    expect(calm.provesForMs).to.equal(MINUTE_MS);
  });

  it("three drops within a day are a trouble of the device", () => {
    const hourMs = 60 * MINUTE_MS;
    const twice = withDrop(withDrop([], 0), hourMs);
    expect(isTrouble(twice, hourMs)).to.equal(false);
    expect(isTrouble(withDrop(twice, 2 * hourMs), 2 * hourMs)).to.equal(true);
    expect(isTrouble(withDrop(twice, 24 * hourMs), 24 * hourMs)).to.equal(false);
  });
});
