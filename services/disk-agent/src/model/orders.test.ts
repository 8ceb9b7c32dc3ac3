import { type DeviceId, type HostId, InvalidStateError, OutdatedError, UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import { type AgentMemory, emptyMemory, isWanted, type OrderKind, withDevice } from "./memory.js";
import { acceptRequest, decideOrder, isCurrentOrder } from "./orders.js";
import { decideRegistration } from "./registration.js";

const HOST = "host-1" as HostId;
const DEVICE = "device-1" as DeviceId;
const OTHER = "device-2" as DeviceId;
const BOOT = "boot-1";
const KNOWN = new Set([DEVICE, OTHER]);

const stamp = (tabletGeneration: number, deviceGeneration: number, tabletId = "tablet") => ({
  tabletId,
  tabletGeneration,
  deviceGeneration,
});

const registered = (tabletGeneration = 3): AgentMemory => ({
  ...emptyMemory(HOST),
  tabletId: "tablet",
  tabletGeneration,
});

const after = (tabletGeneration: number, deviceGeneration: number, kind: OrderKind): AgentMemory =>
  withDevice(registered(tabletGeneration), DEVICE, { order: { tabletGeneration, deviceGeneration, kind } });

describe("acceptRequest (rule 1)", () => {
  const rows: [string, AgentMemory, { bootId: string; stamps: ReturnType<typeof stamp>[] }, unknown, RegExp?][] = [
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
      { bootId: BOOT, stamps: [stamp(9, 9, "foreign")] },
      InvalidStateError,
      /foreign/,
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

  it("the same tablet generation -> nothing to remember", () => {
    const memory = registered();
    expect(acceptRequest(memory, BOOT, { bootId: BOOT, stamps: [stamp(3, 1)] })).to.equal(memory);
  });

  it("a higher tablet generation -> remembered", () => {
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
    ["equal of the same kind -> converge", after(3, 5, "attach"), [3, 5, "attach"], "converge", false],
    ["equal of the same kind, detach -> converge", after(3, 5, "detach"), [3, 5, "detach"], "converge", false],
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
      expect(decision.verdict.verdict).to.equal(verdict);
      expect(decision.memory !== memory).to.equal(changes);
      expect(isCurrentOrder(decision.memory, order)).to.equal(verdict !== "outdated");
    });

  it("outdated -> the message says both stamps", () => {
    const { verdict } = decideOrder(after(3, 5, "detach"), KNOWN, {
      deviceId: DEVICE,
      stamp: stamp(3, 4),
      kind: "attach",
    });
    expect(verdict)
      .to.have.property("message")
      .that.matches(/device generation 4.*device generation 5/);
  });

  it("a device that the agent does not have -> unknown, nothing remembered", () => {
    const memory = registered();
    const decision = decideOrder(memory, KNOWN, { deviceId: "nobody" as DeviceId, stamp: stamp(3, 1), kind: "attach" });
    expect(decision.verdict.verdict).to.equal("unknown_device");
    expect(decision.memory).to.equal(memory);
  });

  it("an order that is overtaken is no longer current; a device is wanted unless its last order was detach", () => {
    const attach = { deviceId: DEVICE, stamp: stamp(3, 1), kind: "attach" as const };
    const first = decideOrder(registered(), KNOWN, attach).memory;
    expect(isWanted(registered(), DEVICE)).to.equal(true);
    const second = decideOrder(first, KNOWN, { ...attach, stamp: stamp(3, 2), kind: "detach" }).memory;
    expect(isCurrentOrder(second, attach)).to.equal(false);
    expect(isWanted(second, DEVICE)).to.equal(false);
  });
});

describe("decideRegistration", () => {
  const answer = {
    tabletId: "tablet",
    tabletGeneration: 3,
    allowed: [{ deviceId: DEVICE, stamp: stamp(3, 5) }],
    unknown: [{ deviceId: OTHER, stamp: stamp(3, 6) }],
  };

  it("a first answer -> both lists are obeyed and the tablet is remembered", () => {
    const { memory, decisions } = decideRegistration(emptyMemory(HOST), KNOWN, answer);
    expect(decisions.map(({ verdict }) => verdict.verdict)).to.deep.equal(["obey", "obey"]);
    expect(memory.tabletId).to.equal("tablet");
    expect([isWanted(memory, DEVICE), isWanted(memory, OTHER)]).to.deep.equal([true, false]);
  });

  it("a newer order that overtook the answer -> wins", () => {
    const { memory, decisions } = decideRegistration(after(3, 7, "detach"), KNOWN, answer);
    expect(decisions.map(({ verdict }) => verdict.verdict)).to.deep.equal(["outdated", "obey"]);
    expect(isWanted(memory, DEVICE)).to.equal(false);
  });

  it("another tablet -> nothing is applied", () => {
    const foreign = { ...answer, tabletId: "foreign" };
    expect(() => decideRegistration(registered(), KNOWN, foreign)).to.throw(InvalidStateError);
  });

  it("a stamp of another tablet in one entry -> nothing is applied", () => {
    const mixed = { ...answer, unknown: [{ deviceId: OTHER, stamp: stamp(3, 6, "foreign") }] };
    expect(() => decideRegistration(registered(), KNOWN, mixed)).to.throw(InvalidStateError, OTHER);
  });

  it("a replaced leader -> nothing is applied", () => {
    expect(() => decideRegistration(registered(4), KNOWN, answer)).to.throw(OutdatedError);
  });
});
