import type { DeviceId, HostId } from "@diskmesh/domain";
import { expect } from "chai";
import { emptyMemory } from "./memory.js";
import { type Run, WHOLE_DEVICE } from "./runs.js";
import {
  decideCloseSession,
  decideOpenSession,
  endSessions,
  forgetErased,
  hasHolder,
  highestSession,
  isCurrentSession,
  restoreSessions,
  type SessionWish,
  sessionAt,
  whyOutdated,
} from "./sessions.js";

const DEVICE = "device-1" as DeviceId;
const WHOLE = { deviceId: DEVICE, ...WHOLE_DEVICE };
const EMPTY = emptyMemory("host-1" as HostId);

const wish = (number: number, change: Partial<SessionWish> = {}): SessionWish => ({
  number,
  purpose: "disk",
  diskId: "disk-1",
  holderHostId: "host-1",
  ...change,
});

const outcomeOf = ({ verdict }: ReturnType<typeof decideOpenSession>) =>
  verdict === "grant" ? verdict : verdict.outcome;

describe("decideOpenSession", () => {
  const rows: [string, SessionWish, SessionWish, string][] = [
    ["higher -> supersedes", wish(5), wish(6), "grant"],
    ["lower -> outdated", wish(5), wish(4), "outdated"],
    ["equal -> the same", wish(5), wish(5), "grant"],
    ["equal for another disk -> outdated", wish(5), wish(5, { diskId: "disk-2" }), "outdated"],
    ["equal for another holder -> outdated", wish(5), wish(5, { holderHostId: "host-2" }), "outdated"],
    [
      "equal for an erase -> outdated",
      wish(5),
      wish(5, { purpose: "erase", diskId: "", holderHostId: "" }),
      "outdated",
    ],
  ];
  for (const [title, first, second, verdict] of rows)
    it(title, () => {
      const { memory } = decideOpenSession(EMPTY, WHOLE, first);
      const decision = decideOpenSession(memory, WHOLE, second);
      expect(outcomeOf(decision)).to.equal(verdict);
      const obeyed = verdict === "grant" ? second.number : first.number;
      expect(isCurrentSession(decision.memory, WHOLE, obeyed)).to.equal(true);
    });

  for (const [title, formerNumber, isEnded, verdict] of [
    ["follows the session that was the last one", 5, false, "grant"],
    ["does not follow another one", 4, false, "outdated"],
    ["does not follow one whose bytes were replaced", 5, true, "outdated"],
  ] as const)
    it(title, () => {
      const opened = decideOpenSession(EMPTY, WHOLE, wish(5)).memory;
      const memory = isEnded ? endSessions(opened, DEVICE) : opened;
      const next = decideOpenSession(memory, WHOLE, wish(6), formerNumber);
      expect(outcomeOf(next)).to.equal(verdict);
      if (verdict === "outdated") expect(next.memory).to.equal(memory);
      else expect(decideOpenSession(next.memory, WHOLE, wish(6), formerNumber).verdict).to.equal("grant");
    });

  it("follows no session of a part of the run, and none where there was none", () => {
    const half = decideOpenSession(EMPTY, { ...WHOLE, sizeBytes: 65_536 }, wish(5)).memory;
    const both = decideOpenSession(half, { ...WHOLE, offsetBytes: 65_536, sizeBytes: 65_536 }, wish(4)).memory;
    for (const memory of [EMPTY, both])
      expect(decideOpenSession(memory, WHOLE, wish(6), 5).verdict).to.include({ outcome: "outdated" });
  });

  it("takes over another key of the same session, which the next leader gives", () => {
    const first = decideOpenSession(EMPTY, WHOLE, wish(5, { sessionKey: "of the first leader" })).memory;
    const { memory, verdict } = decideOpenSession(first, WHOLE, wish(5, { sessionKey: "of the next" }));
    expect(verdict).to.equal("grant");
    expect(sessionAt(memory, DEVICE, 0)?.sessionKey).to.equal("of the next");
    expect(decideOpenSession(memory, WHOLE, wish(5, { sessionKey: "of the next" })).memory).to.equal(memory);
    expect(decideOpenSession(memory, WHOLE, wish(4, { sessionKey: "late" })).memory).to.equal(memory);
  });

  it("supersedes nothing with the first one, and remembers it", () => {
    const { memory, verdict } = decideOpenSession(EMPTY, WHOLE, wish(1));
    expect(verdict).to.equal("grant");
    expect(sessionAt(memory, DEVICE, 0)).to.deep.equal({ ...wish(1), ...WHOLE_DEVICE, ended: false });
  });
});

describe("decideCloseSession", () => {
  const opened = decideOpenSession(EMPTY, WHOLE, wish(5, { sessionKey: "key" })).memory;

  it("ends the current one, which cannot be opened again", () => {
    const { memory, changed } = decideCloseSession(opened, WHOLE, 5);
    expect(changed).to.equal(true);
    expect(isCurrentSession(memory, WHOLE, 5)).to.equal(false);
    expect(sessionAt(memory, DEVICE, 0)).not.to.have.property("sessionKey");
    expect(decideOpenSession(memory, WHOLE, wish(5)).verdict).to.include({ outcome: "outdated" });
    expect(decideOpenSession(memory, WHOLE, wish(6)).verdict).to.equal("grant");
  });

  it("changes nothing for a lower one", () => {
    expect(decideCloseSession(opened, WHOLE, 4)).to.deep.equal({ memory: opened, changed: false });
  });

  it("ends one in advance that was never seen", () => {
    const { memory } = decideCloseSession(opened, WHOLE, 7);
    expect(isCurrentSession(memory, WHOLE, 5)).to.equal(false);
    expect(decideOpenSession(memory, WHOLE, wish(7)).verdict).to.include({ outcome: "outdated" });
  });

  it("changes nothing the second time", () => {
    const { memory } = decideCloseSession(opened, WHOLE, 5);
    expect(decideCloseSession(memory, WHOLE, 5).changed).to.equal(false);
  });
});

const at = (offsetBytes: number, sizeBytes = 0) => ({ deviceId: DEVICE, offsetBytes, sizeBytes });
/** Opens sessions one after another; returns the memory. */
const opened = (...orders: [number, Run, Partial<SessionWish>?][]) =>
  orders.reduce(
    (memory, [number, run, change]) => decideOpenSession(memory, { ...WHOLE, ...run }, wish(number, change)).memory,
    EMPTY,
  );
/** Returns the remembered sessions as "offset+size number", with "x" for an ended one. */
const told = (memory: typeof EMPTY) =>
  (memory.devices.get(DEVICE)?.sessions ?? []).map(
    ({ offsetBytes, sizeBytes, number, ended }) => `${offsetBytes}+${sizeBytes} ${number}${ended ? "x" : ""}`,
  );

describe("sessions of runs", () => {
  const before = opened([5, at(0, 10)], [7, at(10, 10)], [6, at(20, 10)]);
  const rows: [string, number, Run, string, string[]][] = [
    ["a free range", 1, at(30, 10), "grant", ["0+10 5", "10+10 7", "20+10 6", "30+10 1"]],
    ["a higher one in place of one", 8, at(10, 10), "grant", ["0+10 5", "10+10 8", "20+10 6"]],
    ["a higher one inside", 8, at(12, 3), "grant", ["0+10 5", "10+2 7x", "12+3 8", "15+5 7x", "20+10 6"]],
    ["a higher one across", 8, at(5, 20), "grant", ["0+5 5x", "5+20 8", "25+5 6x"]],
    ["a higher one of the whole device", 8, at(0), "grant", ["0+0 8"]],
    ["a lower one that overlaps a higher one", 6, at(5, 6), "outdated", ["0+10 5", "10+10 7", "20+10 6"]],
    ["a lower one beside", 4, at(40, 1), "grant", ["0+10 5", "10+10 7", "20+10 6", "40+1 4"]],
    ["the same number, another range", 6, at(25, 10), "outdated", ["0+10 5", "10+10 7", "20+10 6"]],
    ["the same number, a second run", 6, at(30, 10), "grant", ["0+10 5", "10+10 7", "20+10 6", "30+10 6"]],
    ["growth over nothing", 6, at(20, 20), "grant", ["0+10 5", "10+10 7", "20+20 6"]],
    ["growth over a lower one", 7, at(10, 15), "grant", ["0+10 5", "10+15 7", "25+5 6x"]],
    ["growth into a higher one", 5, at(0, 15), "outdated", ["0+10 5", "10+10 7", "20+10 6"]],
    ["a shorter range, as before growth", 7, at(10, 5), "grant", ["0+10 5", "10+10 7", "20+10 6"]],
  ];
  for (const [title, number, run, verdict, after] of rows)
    it(`${title} -> ${verdict}`, () => {
      const decision = decideOpenSession(before, { ...WHOLE, ...run }, wish(number));
      expect([outcomeOf(decision), told(decision.memory)]).to.deep.equal([verdict, after]);
    });

  it("a whole device is split by a run, and what is left has ended", () => {
    const memory = opened([5, at(0)], [6, at(10, 10)]);
    expect(told(memory)).to.deep.equal(["0+10 5x", "10+10 6", "20+0 5x"]);
    for (const byte of [0, 10, 20]) expect(whyOutdated(memory, at(byte), 5), String(byte)).to.be.a("string");
    expect(decideOpenSession(memory, at(20, 5), wish(4)).verdict).to.include({ outcome: "outdated" });
  });

  it("growth is no longer current before it is remembered, and keeps its key", () => {
    const memory = opened([5, at(0, 10), { sessionKey: "key" }]);
    expect(isCurrentSession(memory, at(0, 20), 5)).to.equal(false);
    const grown = decideOpenSession(memory, at(0, 20), wish(5, { sessionKey: "next" })).memory;
    expect(isCurrentSession(grown, at(0, 20), 5)).to.equal(true);
    const late = decideOpenSession(grown, at(0, 10), wish(5, { sessionKey: "latest" })).memory;
    expect([told(late), sessionAt(late, DEVICE, 19)?.sessionKey]).to.deep.equal([["0+20 5"], "latest"]);
  });

  it("the session at a byte is found among many, and none between them", () => {
    const memory = opened(...Array.from({ length: 9 }, (_, n): [number, Run] => [n + 1, at(n * 10, 5)]));
    const found = Array.from({ length: 95 }, (_, byte) => sessionAt(memory, DEVICE, byte)?.number ?? 0);
    expect(found).to.deep.equal(
      Array.from({ length: 95 }, (_, byte) => (byte % 10 < 5 && byte < 90 ? Math.floor(byte / 10) + 1 : 0)),
    );
  });

  it("a close ends one run, and in advance what is lower in its range", () => {
    const one = decideCloseSession(before, at(10, 10), 7);
    expect([one.changed, told(one.memory)]).to.deep.equal([true, ["0+10 5", "10+10 7x", "20+10 6"]]);
    expect(decideCloseSession(one.memory, at(10, 10), 7).changed).to.equal(false);
    const ahead = decideCloseSession(before, at(5, 10), 8);
    expect([ahead.changed, told(ahead.memory)]).to.deep.equal([true, ["0+5 5x", "5+10 8x", "15+5 7x", "20+10 6"]]);
    expect(decideCloseSession(before, at(5, 10), 6)).to.deep.equal({ memory: before, changed: false });
  });
});

describe("the floor", () => {
  const ERASE = { purpose: "erase" as const, diskId: "", holderHostId: "" };
  const closed = (number: number, run: Run, memory: typeof EMPTY) =>
    forgetErased(decideCloseSession(memory, { ...WHOLE, ...run }, number).memory, { ...WHOLE, ...run }, number);
  const erased = closed(9, at(10, 10), opened([5, at(0, 10)], [7, at(10, 10)], [9, at(10, 10), ERASE]));

  it("rises to the number of an erased run that is closed, which is forgotten", () => {
    expect([told(erased), erased.devices.get(DEVICE)?.floor]).to.deep.equal([["0+10 5"], 9]);
    expect(highestSession(erased, DEVICE)).to.equal(9);
    expect(decideCloseSession(erased, at(10, 10), 9)).to.deep.equal({ memory: erased, changed: false });
  });

  it("is that of an erase of which a later session has left pieces", () => {
    const pieces = opened([9, at(0, 40), ERASE], [10, at(10, 10)]);
    expect(told(pieces)).to.deep.equal(["0+10 9x", "10+10 10", "20+20 9x"]);
    const left = closed(9, at(0, 40), pieces);
    expect([told(left), left.devices.get(DEVICE)?.floor]).to.deep.equal([["10+10 10"], 9]);
  });

  it("does not rise for a disk's session, for an erase that goes on, or to a lower number", () => {
    const disk = opened([7, at(10, 10)]);
    expect(closed(7, at(10, 10), disk).devices.get(DEVICE)?.floor).to.equal(undefined);
    const goesOn = opened([9, at(10, 10), ERASE]);
    expect(forgetErased(goesOn, at(10, 10), 9)).to.equal(goesOn);
    const lower = decideOpenSession(erased, at(20, 10), wish(8, ERASE));
    expect(lower.verdict).to.include({ outcome: "below_floor", floor: 9 });
    const two = closed(8, at(20, 10), opened([8, at(20, 10), ERASE], [9, at(10, 10), ERASE]));
    expect(closed(9, at(10, 10), two).devices.get(DEVICE)?.floor).to.equal(9);
    expect(
      closed(8, at(20, 10), closed(9, at(10, 10), opened([8, at(20, 10), ERASE], [9, at(10, 10), ERASE]))).devices.get(
        DEVICE,
      )?.floor,
    ).to.equal(9);
  });

  const rows: [string, number, Run, string][] = [
    ["a lower one on forgotten bytes", 8, at(10, 10), "below_floor"],
    ["the erase itself", 9, at(10, 10), "below_floor"],
    ["a lower one elsewhere", 8, at(40, 10), "below_floor"],
    ["a lower one over a remembered run", 8, at(0, 10), "below_floor"],
    ["a higher one", 10, at(10, 10), "grant"],
    ["a remembered one below it", 5, at(0, 10), "grant"],
    ["growth of a remembered one below it", 5, at(0, 20), "grant"],
  ];
  for (const [title, number, run, verdict] of rows)
    it(`${title} -> ${verdict}`, () => {
      expect(outcomeOf(decideOpenSession(erased, { ...WHOLE, ...run }, wish(number)))).to.equal(verdict);
    });

  it("ends I/O of forgotten sessions for good, and only that", () => {
    expect(whyOutdated(erased, at(10), 8)).to.match(/floor is 9/);
    expect(whyOutdated(erased, at(10), 10)).to.equal(undefined);
    expect(whyOutdated(erased, at(0), 5)).to.equal(undefined);
    expect(whyOutdated(erased, at(0), 8)).to.match(/floor is 9/);
  });
});

describe("restoreSessions", () => {
  const given = {
    deviceId: DEVICE,
    floor: 9,
    sessions: [
      { ...wish(7), offsetBytes: 10, sizeBytes: 10, ended: false },
      { ...wish(5), offsetBytes: 0, sizeBytes: 10, ended: true },
    ],
  };

  it("brings floor and sessions to a device that remembers none, which then refuses old ones", () => {
    const memory = restoreSessions(EMPTY, given);
    expect([told(memory), memory.devices.get(DEVICE)?.floor]).to.deep.equal([["0+10 5x", "10+10 7"], 9]);
    expect(decideOpenSession(memory, at(10, 10), wish(7)).verdict).to.equal("grant");
    expect(decideOpenSession(memory, at(20, 10), wish(8)).verdict).to.include({ outcome: "below_floor" });
  });

  it("changes nothing of a device that remembers any, or without a floor", () => {
    const knows = opened([1, at(0)]);
    expect(restoreSessions(knows, given)).to.equal(knows);
    expect(restoreSessions(EMPTY, { deviceId: DEVICE, floor: 0, sessions: [] })).to.equal(EMPTY);
  });
});

describe("hasHolder", () => {
  const rows: [string, Partial<SessionWish>, boolean][] = [
    ["a holder on this host", {}, true],
    ["a holder on another host", { holderHostId: "host-2" }, true],
    ["a fence", { holderHostId: "" }, false],
    ["an erase", { purpose: "erase", diskId: "", holderHostId: "" }, false],
  ];
  for (const [title, change, expected] of rows)
    it(`${title} on one of two runs -> ${expected}`, () => {
      const other = decideOpenSession(EMPTY, at(0, 10), wish(5, { holderHostId: "" })).memory;
      const { memory } = decideOpenSession(other, at(10, 10), wish(6, change));
      expect(hasHolder(memory, DEVICE)).to.equal(expected);
    });

  it("a holder whose session was ended -> false", () => {
    const memory = restoreSessions(EMPTY, {
      deviceId: DEVICE,
      floor: 9,
      sessions: [{ ...wish(5), offsetBytes: 0, sizeBytes: 10, ended: true }],
    });
    expect(hasHolder(memory, DEVICE)).to.equal(false);
  });
});
