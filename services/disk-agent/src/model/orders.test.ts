import {
  type DeviceId,
  DomainError,
  type HostId,
  InvalidStateError,
  OutdatedError,
  type Stamp,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { type AgentMemory, emptyMemory, isWanted, type OrderKind, withDevice } from "./memory.js";
import { acceptRequest, decideOrder, whyOvertaken } from "./orders.js";
import { WHOLE_DEVICE } from "./runs.js";
import { decideOpenSession } from "./sessions.js";

const HOST = "host-1" as HostId;
const DEVICE = "device-1" as DeviceId;
const OTHER = "device-2" as DeviceId;
const BOOT = "boot-1";
const KNOWN = new Set([DEVICE, OTHER]);

const LEADER = { tabletId: "tablet", incarnation: "child" };

const stamp = (tabletGeneration: number, deviceGeneration: number, change: Partial<Stamp> = {}): Stamp => ({
  ...LEADER,
  tabletGeneration,
  deviceGeneration,
  ...change,
});

const registered = (tabletGeneration = 3, change: Partial<AgentMemory> = {}): AgentMemory => ({
  ...emptyMemory(HOST),
  ...LEADER,
  formerIncarnations: ["parent"],
  tabletGeneration,
  ...change,
});

const after = (tabletGeneration: number, deviceGeneration: number, kind: OrderKind): AgentMemory =>
  withDevice(registered(tabletGeneration), DEVICE, { order: { tabletGeneration, deviceGeneration, kind } });

describe("acceptRequest (rule 1)", () => {
  const rows: [string, AgentMemory, { bootId: string; stamps: Stamp[] }, unknown, RegExp?][] = [
    [
      "another boot id -> refused",
      registered(),
      { bootId: "boot-0", stamps: [stamp(3, 1)] },
      OutdatedError,
      /boot-0.*boot-1/,
    ],
    ["never registered -> refused", emptyMemory(HOST), { bootId: BOOT, stamps: [stamp(3, 1)] }, UnavailableError],
    [
      "another tablet -> refused",
      registered(),
      { bootId: BOOT, stamps: [stamp(9, 9, { tabletId: "foreign" })] },
      InvalidStateError,
      /"foreign".*"child" of tablet "tablet"/,
    ],
    [
      "another incarnation -> refused, however high its generation",
      registered(),
      { bootId: BOOT, stamps: [stamp(3, 1), stamp(9, 9, { incarnation: "copy" })] },
      InvalidStateError,
      /"copy".*"child".*only a registration changes that/,
    ],
    [
      "a former incarnation -> outdated",
      registered(),
      { bootId: BOOT, stamps: [stamp(9, 9, { incarnation: "parent" })] },
      OutdatedError,
      /was replaced.*"child".*"parent"/,
    ],
    [
      "a former incarnation of another tablet -> outdated",
      registered(),
      { bootId: BOOT, stamps: [stamp(9, 9, { incarnation: "parent", tabletId: "foreign" })] },
      OutdatedError,
      /was replaced/,
    ],
    [
      "a lower tablet generation -> the whole request is refused",
      registered(),
      { bootId: BOOT, stamps: [stamp(3, 1), stamp(2, 9)] },
      OutdatedError,
      /generation 2.*generation 3/,
    ],
  ];
  for (const [title, memory, request, error, message] of rows)
    it(title, () => {
      expect(() => acceptRequest(memory, BOOT, request)).to.throw(error as ErrorConstructor, message);
    });

  for (const change of [{ tabletId: "foreign" }, { incarnation: "copy" }, { incarnation: "parent" }])
    it(`${JSON.stringify(change)} gets an error that names the leader`, async () => {
      const request = { bootId: BOOT, stamps: [stamp(3, 1, change)] };
      const error = await rejection(() => acceptRequest(registered(), BOOT, request), DomainError);
      expect(error.about).to.deep.equal({ host_id: HOST, tablet_id: "tablet", incarnation: "child" });
    });

  it("keeps the memory at the same tablet generation", () => {
    const memory = registered();
    expect(acceptRequest(memory, BOOT, { bootId: BOOT, stamps: [stamp(3, 1)] })).to.equal(memory);
  });

  it("remembers a higher tablet generation", () => {
    const memory = acceptRequest(registered(), BOOT, { bootId: BOOT, stamps: [stamp(4, 1)] });
    expect(memory.tabletGeneration).to.equal(4);
  });
});

describe("decideOrder (rule 2)", () => {
  const rows: [string, AgentMemory, [number, number, OrderKind], string, boolean][] = [
    ["first order -> obey", registered(), [3, 1, "attach"], "obey", true],
    ["higher device generation -> obey", after(3, 5, "attach"), [3, 6, "detach"], "obey", true],
    [
      "higher tablet generation with a lower device generation -> obey",
      after(3, 5, "attach"),
      [4, 1, "detach"],
      "obey",
      true,
    ],
    ["higher of the same kind -> obey", after(3, 5, "attach"), [3, 6, "attach"], "obey", true],
    ["equal of the same kind -> obey, changes nothing", after(3, 5, "attach"), [3, 5, "attach"], "obey", false],
    ["equal of the same kind, detach -> obey, changes nothing", after(3, 5, "detach"), [3, 5, "detach"], "obey", false],
    ["equal of the other kind -> outdated", after(3, 5, "attach"), [3, 5, "detach"], "outdated", false],
    ["lower device generation -> outdated", after(3, 5, "detach"), [3, 4, "attach"], "outdated", false],
    [
      "lower device generation of the same kind -> outdated",
      after(3, 5, "detach"),
      [3, 4, "detach"],
      "outdated",
      false,
    ],
    [
      "lower tablet generation with a higher device generation -> outdated",
      after(3, 5, "detach"),
      [2, 99, "attach"],
      "outdated",
      false,
    ],
  ];
  for (const [title, memory, [tabletGeneration, deviceGeneration, kind], verdict, changes] of rows)
    it(title, () => {
      const order = { deviceId: DEVICE, stamp: stamp(tabletGeneration, deviceGeneration), kind };
      const decision = decideOrder(memory, KNOWN, order);
      expect(decision.verdict === "obey" ? "obey" : decision.verdict.outcome).to.equal(verdict);
      expect(decision.memory !== memory).to.equal(changes);
      expect(whyOvertaken(decision.memory, order) === undefined).to.equal(verdict !== "outdated");
    });

  it("names both stamps in OUTDATED", () => {
    const { verdict } = decideOrder(after(3, 5, "detach"), KNOWN, {
      deviceId: DEVICE,
      stamp: stamp(3, 4),
      kind: "attach",
    });
    expect(verdict)
      .to.have.property("message")
      .that.matches(/device generation 4.*device generation 5/);
  });

  it("answers UNKNOWN for a device that the agent does not have, and remembers nothing", () => {
    const memory = registered();
    const decision = decideOrder(memory, KNOWN, { deviceId: "nobody" as DeviceId, stamp: stamp(3, 1), kind: "attach" });
    expect(decision.verdict).to.include({ outcome: "unknown_device" });
    expect(decision.memory).to.equal(memory);
  });

  it("an attach of other bytes than were detached ends the sessions of its device, and of no other", () => {
    const session = { number: 4, purpose: "disk", diskId: "disk-1", holderHostId: HOST, ended: false } as const;
    const sessions = [{ ...session, ...WHOLE_DEVICE, sessionKey: "ab" }];
    const bytes = { offsetBytes: 0, sizeBytes: 4096, blockSizeBytes: 512, serialNumber: "s", fileIdentity: "f" };
    const held = withDevice(withDevice(registered(), DEVICE, { sessions, identity: bytes }), OTHER, { sessions });
    const after = (memory: AgentMemory, generation: number, kind: OrderKind, expected?: typeof bytes) =>
      decideOrder(memory, KNOWN, { deviceId: DEVICE, stamp: stamp(3, generation), kind, expected }).memory;
    const detached = after(after(held, 1, "detach"), 2, "detach");
    expect(detached.devices.get(DEVICE)?.sessions).to.deep.equal(sessions);
    expect(after(detached, 3, "attach", bytes).devices.get(DEVICE)?.sessions).to.deep.equal(sessions);
    for (const others of [{ ...bytes, offsetBytes: 4096 }, { ...bytes, fileIdentity: "g" }, undefined]) {
      const { devices } = after(detached, 3, "attach", others);
      expect(devices.get(DEVICE)?.sessions).to.deep.equal([{ ...session, ...WHOLE_DEVICE, ended: true }]);
      expect(devices.get(OTHER)?.sessions).to.deep.equal(sessions);
    }
    expect(after(held, 1, "attach", { ...bytes, offsetBytes: 4096 }).devices.get(DEVICE)?.sessions).to.equal(sessions);
  });

  it("an attach ends the sessions up to the number that it names, and refuses them from then on", () => {
    const session = { purpose: "disk", diskId: "disk-1", holderHostId: HOST, ended: false, sizeBytes: 4096 } as const;
    const sessions = [4, 6].map((number) => ({ ...session, number, offsetBytes: number * 4096 }));
    const held = withDevice(after(3, 1, "attach"), DEVICE, { sessions });
    const attach = (generation: number, endedSessionNumber: number) => {
      const order = { deviceId: DEVICE, stamp: stamp(3, generation), kind: "attach", endedSessionNumber } as const;
      return decideOrder(held, KNOWN, order).memory.devices.get(DEVICE);
    };
    expect(attach(2, 5)).to.deep.include({ floor: 5, sessions: [sessions[1]] });
    expect(attach(2, 0)).to.not.have.property("floor");
    expect(attach(1, 5)?.sessions, "a repeated order").to.equal(sessions);
    const late = { deviceId: DEVICE, offsetBytes: 0, sizeBytes: 4096 };
    const opened = (memory: AgentMemory, number: number) =>
      decideOpenSession(memory, late, { ...session, number }).verdict;
    const ended = withDevice(held, DEVICE, attach(2, 5) ?? {});
    expect(opened(ended, 5)).to.include({ outcome: "below_floor" });
    expect([opened(held, 5), opened(ended, 7)]).to.deep.equal(["grant", "grant"]);
  });

  it("an attach brings the label that the device carries; a repeated one without a label forgets none", () => {
    const labelAfter = (memory: AgentMemory, generation: number, kind: OrderKind, labelId?: string) => {
      const { memory: next } = decideOrder(memory, KNOWN, {
        deviceId: DEVICE,
        stamp: stamp(3, generation),
        kind,
        labelId,
      });
      return { next, labelId: next.devices.get(DEVICE)?.labelId };
    };
    const { next: labelled, labelId } = labelAfter(registered(), 1, "attach", "a");
    expect(labelId).to.equal("a");
    expect(labelAfter(labelled, 1, "attach").labelId, "repeated").to.equal("a");
    expect(labelAfter(labelled, 1, "attach", "b").labelId, "repeated").to.equal("b");
    expect(labelAfter(labelled, 2, "attach").labelId).to.equal(undefined);
    expect(labelAfter(labelled, 2, "detach").labelId).to.equal(undefined);
  });

  it("a replaced order is not current; a device is wanted unless its last order was detach", () => {
    const attach = { deviceId: DEVICE, stamp: stamp(3, 1), kind: "attach" as const };
    const first = decideOrder(registered(), KNOWN, attach).memory;
    expect(isWanted(registered(), DEVICE)).to.equal(true);
    const second = decideOrder(first, KNOWN, { ...attach, stamp: stamp(3, 2), kind: "detach" }).memory;
    expect(whyOvertaken(second, attach)).to.match(/attach .* is outdated: the last order obeyed was detach/);
    expect(isWanted(second, DEVICE)).to.equal(false);
  });

  it("an order of a former incarnation is not current", () => {
    const order = { deviceId: DEVICE, stamp: stamp(3, 5, { incarnation: "parent" }), kind: "attach" as const };
    const numbers = [
      [0, 0],
      [3, 5],
    ] as const;
    for (const [tabletGeneration, deviceGeneration] of numbers) {
      const memory = after(tabletGeneration, deviceGeneration, "attach");
      expect(whyOvertaken(memory, order)).to.match(/changed over to incarnation "child"/);
    }
  });
});
