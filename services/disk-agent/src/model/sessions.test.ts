import type { DeviceId, HostId } from "@diskmesh/domain";
import { expect } from "chai";
import { emptyMemory } from "./memory.js";
import { decideCloseSession, decideOpenSession, isCurrentSession, type SessionWish } from "./sessions.js";

const DEVICE = "device-1" as DeviceId;
const EMPTY = emptyMemory("host-1" as HostId);

const wish = (number: number, change: Partial<SessionWish> = {}): SessionWish => ({
  number,
  purpose: "disk",
  diskId: "disk-1",
  holderHostId: "host-1",
  ...change,
});

describe("decideOpenSession", () => {
  const rows: [string, SessionWish, SessionWish, string][] = [
    ["higher -> supersedes", wish(5), wish(6), "supersede"],
    ["lower -> outdated", wish(5), wish(4), "outdated"],
    ["equal -> the same", wish(5), wish(5), "same"],
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
      const { memory } = decideOpenSession(EMPTY, DEVICE, first);
      const decision = decideOpenSession(memory, DEVICE, second);
      expect(decision.verdict.verdict).to.equal(verdict);
      const obeyed = verdict === "supersede" ? second.number : first.number;
      expect(isCurrentSession(decision.memory, DEVICE, obeyed)).to.equal(true);
    });

  it("takes over another key of the same session, which the next leader gives", () => {
    const first = decideOpenSession(EMPTY, DEVICE, wish(5, { sessionKey: "of the first leader" })).memory;
    const { memory, verdict } = decideOpenSession(first, DEVICE, wish(5, { sessionKey: "of the next" }));
    expect(verdict.verdict).to.equal("same");
    expect(memory.devices.get(DEVICE)?.session?.sessionKey).to.equal("of the next");
    expect(decideOpenSession(memory, DEVICE, wish(5, { sessionKey: "of the next" })).memory).to.equal(memory);
    expect(decideOpenSession(memory, DEVICE, wish(4, { sessionKey: "late" })).memory).to.equal(memory);
  });

  it("supersedes nothing with the first one, and remembers it", () => {
    const { memory, verdict } = decideOpenSession(EMPTY, DEVICE, wish(1));
    expect(verdict.verdict).to.equal("supersede");
    expect(memory.devices.get(DEVICE)?.session).to.deep.equal({ ...wish(1), ended: false });
  });
});

describe("decideCloseSession", () => {
  const opened = decideOpenSession(EMPTY, DEVICE, wish(5, { sessionKey: "key" })).memory;

  it("ends the current one, which cannot be opened again", () => {
    const { memory, changed } = decideCloseSession(opened, DEVICE, 5);
    expect(changed).to.equal(true);
    expect(isCurrentSession(memory, DEVICE, 5)).to.equal(false);
    expect(memory.devices.get(DEVICE)?.session).not.to.have.property("sessionKey");
    expect(decideOpenSession(memory, DEVICE, wish(5)).verdict.verdict).to.equal("outdated");
    expect(decideOpenSession(memory, DEVICE, wish(6)).verdict.verdict).to.equal("supersede");
  });

  it("changes nothing for a lower one", () => {
    expect(decideCloseSession(opened, DEVICE, 4)).to.deep.equal({ memory: opened, changed: false });
  });

  it("ends one in advance that was never seen", () => {
    const { memory } = decideCloseSession(opened, DEVICE, 7);
    expect(isCurrentSession(memory, DEVICE, 5)).to.equal(false);
    expect(decideOpenSession(memory, DEVICE, wish(7)).verdict.verdict).to.equal("outdated");
  });

  it("changes nothing the second time", () => {
    const { memory } = decideCloseSession(opened, DEVICE, 5);
    expect(decideCloseSession(memory, DEVICE, 5).changed).to.equal(false);
  });
});
