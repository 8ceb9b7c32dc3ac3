import {
  type DeviceId,
  type DiskId,
  type HostId,
  InvalidStateError,
  OutdatedError,
  type Stamp,
} from "@diskmesh/domain";
import { expect } from "chai";
import { decideExport } from "./exports.js";
import { highestNumbers } from "./highest-numbers.js";
import { type AgentMemory, emptyMemory, isWanted, lastStamp, type OrderKind, withDevice } from "./memory.js";
import { decideRegistration, obeyRebuilt, type RegistrationAnswer } from "./registration.js";
import { WHOLE_DEVICE } from "./runs.js";
import { decideCloseSession } from "./sessions.js";

const HOST = "host-1" as HostId;
const DEVICE = "device-1" as DeviceId;
const OTHER = "device-2" as DeviceId;
const KNOWN = new Set([DEVICE, OTHER]);
const IDENTITY = { offsetBytes: 0, sizeBytes: 8192, blockSizeBytes: 512, serialNumber: "s", fileIdentity: "f" };

const answerOf = (
  life: { tabletId?: string; incarnation?: string; tabletGeneration?: number } = {},
  predecessors: readonly (readonly [string, string])[] = [],
): RegistrationAnswer => {
  const leader = { tabletId: "tablet", incarnation: "parent", tabletGeneration: 3, ...life };
  return {
    ...leader,
    predecessors: predecessors.map(([tabletId, incarnation]) => ({ tabletId, incarnation })),
    allowed: [{ deviceId: DEVICE, stamp: { ...leader, deviceGeneration: 5 } }],
    unknown: [{ deviceId: OTHER, stamp: { ...leader, deviceGeneration: 6 } }],
  };
};

const obeys = (change: Partial<AgentMemory> = {}): AgentMemory => ({
  ...emptyMemory(HOST),
  tabletId: "tablet",
  incarnation: "parent",
  tabletGeneration: 3,
  ...change,
});

const ordered = (memory: AgentMemory, deviceGeneration: number, kind: OrderKind): AgentMemory =>
  withDevice(memory, DEVICE, { order: { tabletGeneration: memory.tabletGeneration, deviceGeneration, kind } });

const decide = (memory: AgentMemory, answer: RegistrationAnswer) => decideRegistration(memory, KNOWN, answer);

const NOBODY = emptyMemory(HOST);

describe("decideRegistration: the obeyed incarnation", () => {
  interface Row {
    readonly title: string;
    readonly memory: AgentMemory;
    readonly answer: RegistrationAnswer;
    /** Obeyed tablet, incarnation and generation after the answer, and the former incarnations. */
    readonly obeyed: readonly [tabletId: string, incarnation: string, tabletGeneration: number, former: string[]];
  }
  const rows: Row[] = [
    {
      title: "nobody -> the one that answers",
      memory: NOBODY,
      answer: answerOf(),
      obeyed: ["tablet", "parent", 3, []],
    },
    {
      title: "nobody -> a restored one, and never again what it came from",
      memory: NOBODY,
      answer: answerOf({ incarnation: "child" }, [["tablet", "parent"]]),
      obeyed: ["tablet", "child", 3, ["parent"]],
    },
    {
      title: "the same -> the same, with the answer's generation",
      memory: obeys(),
      answer: answerOf({ tabletGeneration: 4 }),
      obeyed: ["tablet", "parent", 4, []],
    },
    {
      title: "a child of the one obeyed -> changes over",
      memory: obeys(),
      answer: answerOf({ incarnation: "child", tabletGeneration: 1_000 }, [["tablet", "parent"]]),
      obeyed: ["tablet", "child", 1_000, ["parent"]],
    },
    {
      title: "a grandchild -> changes over, and never again what lies between",
      memory: obeys({ formerIncarnations: ["grandparent"] }),
      answer: answerOf({ incarnation: "grandchild" }, [
        ["tablet", "child"],
        ["tablet", "parent"],
        ["tablet", "grandparent"],
      ]),
      obeyed: ["tablet", "grandchild", 3, ["grandparent", "child", "parent"]],
    },
    {
      title: "another tablet that adopted it, with a lower generation -> changes over",
      memory: obeys({ tabletGeneration: 70 }),
      answer: answerOf({ tabletId: "new", incarnation: "n", tabletGeneration: 1 }, [["tablet", "parent"]]),
      obeyed: ["new", "n", 1, ["parent"]],
    },
    {
      title: "a registry that names itself among those it came from -> not a former one",
      memory: obeys(),
      answer: answerOf({ incarnation: "child" }, [
        ["tablet", "child"],
        ["tablet", "parent"],
      ]),
      obeyed: ["tablet", "child", 3, ["parent"]],
    },
  ];
  for (const { title, memory, answer, obeyed } of rows)
    it(title, () => {
      const { memory: next, decisions } = decide(memory, answer);
      const { tabletId, incarnation, tabletGeneration, formerIncarnations } = next;
      expect([tabletId, incarnation, tabletGeneration, formerIncarnations]).to.deep.equal(obeyed);
      expect(decisions.map(({ verdict }) => verdict)).to.deep.equal(["obey", "obey"]);
    });

  const refused: [string, AgentMemory, RegistrationAnswer, unknown, RegExp][] = [
    [
      "a replaced leader",
      obeys({ tabletGeneration: 4 }),
      answerOf(),
      OutdatedError,
      /generation 3, but the agent has already seen the newer generation 4/,
    ],
    [
      "a former incarnation",
      obeys({ incarnation: "child", formerIncarnations: ["parent"] }),
      answerOf({ tabletGeneration: 99 }),
      OutdatedError,
      /was replaced: incarnation "child" of tablet "tablet" replaced incarnation "parent"/,
    ],
    [
      "a former incarnation that had us adopted",
      obeys({ incarnation: "child", formerIncarnations: ["parent"] }),
      answerOf({ tabletGeneration: 99 }, [["tablet", "child"]]),
      OutdatedError,
      /was replaced/,
    ],
    [
      "a former incarnation of another tablet",
      obeys({ tabletId: "new", incarnation: "n", formerIncarnations: ["parent"] }),
      answerOf(),
      OutdatedError,
      /was replaced/,
    ],
    [
      "another tablet",
      obeys(),
      answerOf({ tabletId: "foreign", incarnation: "f" }),
      InvalidStateError,
      /"f" of tablet "foreign".*"parent" of tablet "tablet".*AdoptFleet.*cache file/,
    ],
    [
      "another incarnation that is no successor",
      obeys(),
      answerOf({ incarnation: "copy", tabletGeneration: 99 }, [["tablet", "somebody"]]),
      InvalidStateError,
      /"copy".*"parent".*AdoptFleet/,
    ],
    [
      "the same incarnation under another tablet's id",
      obeys(),
      answerOf({ tabletId: "foreign" }),
      InvalidStateError,
      /AdoptFleet/,
    ],
    [
      "a child of our incarnation, but of another tablet",
      obeys(),
      answerOf({ tabletId: "foreign", incarnation: "child" }, [["foreign", "parent"]]),
      InvalidStateError,
      /AdoptFleet/,
    ],
  ];
  for (const [title, memory, answer, error, message] of refused)
    it(`refuses ${title}`, () => {
      expect(() => decide(memory, answer)).to.throw(error as ErrorConstructor, message);
    });

  for (const [what, change] of Object.entries({
    tablet: { tabletId: "foreign" },
    incarnation: { incarnation: "copy" },
  } satisfies Record<string, Partial<Stamp>>))
    it(`applies nothing with another ${what} in one entry's stamp`, () => {
      const answer = answerOf();
      const [first] = answer.unknown;
      if (!first) throw new Error("the answer has an unknown device");
      const mixed = { ...answer, unknown: [{ ...first, stamp: { ...first.stamp, ...change } }] };
      expect(() => decide(obeys(), mixed)).to.throw(InvalidStateError, OTHER);
    });
});

describe("decideRegistration: the orders", () => {
  const child = answerOf({ incarnation: "child" }, [["tablet", "parent"]]);

  it("obeys both lists of a first answer", () => {
    const { memory } = decide(NOBODY, answerOf());
    expect([isWanted(memory, DEVICE), isWanted(memory, OTHER)]).to.deep.equal([true, false]);
  });

  it("prefers a newer order that arrived before the answer", () => {
    const { memory, decisions } = decide(ordered(obeys(), 7, "detach"), answerOf());
    expect(decisions.map(({ verdict }) => (verdict === "obey" ? verdict : verdict.outcome))).to.deep.equal([
      "outdated",
      "obey",
    ]);
    expect(isWanted(memory, DEVICE)).to.equal(false);
  });

  it("counts every order after a change of incarnation as newer", () => {
    const { memory, decisions } = decide(ordered(obeys({ tabletGeneration: 70 }), 900, "detach"), child);
    expect(decisions.map(({ verdict }) => verdict)).to.deep.equal(["obey", "obey"]);
    expect(lastStamp(memory, DEVICE)).to.deep.equal(child.allowed[0]?.stamp);
  });

  it("keeps devices without an entry, sessions and exports at a change of incarnation", () => {
    const identity = { ...IDENTITY, sizeBytes: 4096 };
    const before = withDevice(
      decideExport(
        decideCloseSession(ordered(obeys({ exportFloor: 4 }), 900, "detach"), { deviceId: DEVICE, ...WHOLE_DEVICE }, 11)
          .memory,
        {
          diskId: "disk-1" as DiskId,
          sessionNumber: 12,
          blockSizeBytes: 4096,
          extents: [],
        },
      ),
      OTHER,
      { identity },
    );
    const { memory } = decide(before, { ...child, allowed: [], unknown: [] });
    expect(isWanted(memory, DEVICE)).to.equal(false);
    expect(lastStamp(memory, DEVICE)).to.equal(undefined);
    expect(memory.devices.get(DEVICE)?.sessions).to.equal(before.devices.get(DEVICE)?.sessions);
    expect(memory.devices.get(OTHER)).to.deep.equal({ identity });
    expect([memory.exports, memory.exportFloor]).to.deep.equal([before.exports, 4]);
  });

  it("remembers the recorded identities of an answer, and writes nothing when they repeat", () => {
    const [allowed] = child.allowed;
    const answer = { ...child, allowed: allowed ? [{ ...allowed, expected: IDENTITY }] : [] };
    const { memory, decisions } = decide(obeys(), answer);
    expect(memory.devices.get(DEVICE)?.identity).to.deep.equal(IDENTITY);
    expect(decisions[0]?.order.expected).to.equal(IDENTITY);
    expect(decide(memory, answer).memory.devices).to.equal(memory.devices);
  });

  it("treats the second of two changing answers, as after a lost answer, as an ordinary one", () => {
    const once = decide(obeys(), child).memory;
    const twice = decide(once, child);
    expect(twice.decisions.map(({ verdict }) => verdict)).to.deep.equal(["obey", "obey"]);
    expect(twice.memory).to.deep.equal(once);
  });
});

describe("former incarnations", () => {
  it("are remembered up to the last 64, the last obeyed one among them", () => {
    const many = Array.from({ length: 100 }, (_, index) => ["tablet", `i-${index}`] as const);
    const { memory } = decide(
      obeys({ formerIncarnations: ["old"] }),
      answerOf({ incarnation: "child" }, [["tablet", "parent"], ...many]),
    );
    expect(memory.formerIncarnations).to.have.length(64);
    expect(memory.formerIncarnations.at(-1)).to.equal("parent");
    expect(memory.formerIncarnations).not.to.include("old");
  });
});

describe("highestNumbers", () => {
  const life = { tabletId: "tablet", incarnation: "parent", highestTabletGeneration: 3 };

  it("are 0 for an agent that obeyed no registry", () => {
    expect(highestNumbers(NOBODY)).to.deep.equal({
      tabletId: "",
      incarnation: "",
      highestTabletGeneration: 0,
      highestDeviceGeneration: 0,
      highestSessionNumber: 0,
    });
  });

  const session = (number: number) => ({
    sessions: [{ number, purpose: "erase" as const, diskId: "", holderHostId: "", ended: true, ...WHOLE_DEVICE }],
  });
  const spec = (sessionNumber: number) => ({
    spec: { diskId: "disk-1" as DiskId, sessionNumber, blockSizeBytes: 4096, extents: [] },
    sessionNumber,
  });
  const exported = (sessionNumber: number) => new Map([["disk-1" as DiskId, spec(sessionNumber)]]);
  const rows: [string, AgentMemory, number, number][] = [
    ["a device's session, also ended", withDevice(obeys({ exportFloor: 3 }), DEVICE, session(8)), 0, 8],
    ["a floor", withDevice(obeys(), DEVICE, { ...session(8), floor: 11 }), 0, 11],
    ["an export's session", withDevice(obeys({ exports: exported(9) }), DEVICE, session(8)), 0, 9],
    ["what dropped exports left", obeys({ exports: exported(9), exportFloor: 10 }), 0, 10],
    ["an order's generation", withDevice(ordered(obeys(), 6, "attach"), OTHER, session(1)), 6, 1],
    ["an order from before a change-over", ordered(obeys(), 0, "attach"), 0, 0],
  ];
  for (const [title, memory, highestDeviceGeneration, highestSessionNumber] of rows)
    it(title, () => {
      expect(highestNumbers(memory)).to.deep.equal({ ...life, highestDeviceGeneration, highestSessionNumber });
    });
});

describe("obeyRebuilt", () => {
  const REBUILT = { tabletId: "tablet", incarnation: "rebuilt" };

  it("changes over to a registry of its own fleet, and never obeys the lost one again", () => {
    const memory = obeyRebuilt(ordered(obeys({ formerIncarnations: ["grandparent"] }), 5, "attach"), REBUILT);
    expect(memory).to.include({ ...REBUILT, tabletGeneration: 0 });
    expect(memory.formerIncarnations).to.deep.equal(["grandparent", "parent"]);
    expect(memory.devices.get(DEVICE)?.order).to.include({ kind: "attach", deviceGeneration: 0, tabletGeneration: 0 });
    expect(obeyRebuilt(memory, REBUILT), "a repetition").to.equal(memory);
  });

  it("takes one when it has never obeyed any", () => {
    expect(obeyRebuilt(NOBODY, REBUILT)).to.include({ ...REBUILT, tabletGeneration: 0 });
  });

  it("refuses another fleet, and an incarnation that was replaced", () => {
    expect(() => obeyRebuilt(obeys({ tabletId: "other" }), REBUILT)).to.throw(InvalidStateError, 'obeys fleet "other"');
    const former = obeys({ formerIncarnations: ["rebuilt"] });
    expect(() => obeyRebuilt(former, REBUILT)).to.throw(OutdatedError, "was replaced");
  });
});
