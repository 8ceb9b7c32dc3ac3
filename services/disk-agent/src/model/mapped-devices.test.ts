import type { DeviceId, DiskId } from "@diskmesh/domain";
import { expect } from "chai";
import {
  createdNumber,
  cutSteps,
  type DiskRole,
  eventsOf,
  inOrderOfEnd,
  isOnOthers,
  isWiped,
  lastDeviceOf,
  lastMaking,
  linearTable,
  type MappedDevice,
  type MappedRole,
  nameOf,
  numbersBelow,
  parseMapped,
  parseUuid,
  sessionOfUuid,
  settlingSteps,
  sizeOfTable,
  stepsTo,
  uuidOf,
  withoutOwn,
} from "./mapped-devices.js";

const OWNER = "0123456789ab";
const MIB = 1024 * 1024;
const guard: MappedRole = { kind: "guard", drive: "7:0", sequence: 5, isOnFile: false };
const onFile: MappedRole = { ...guard, isOnFile: true };
const leg: MappedRole = { kind: "leg", sessionNumber: 7, offsetBytes: 4096, deviceId: "a-1" as DeviceId };
const disk: DiskRole = { kind: "disk", sessionNumber: 7, making: 1, diskId: "d_1" as DiskId };
const part: MappedRole = { ...disk, kind: "part", making: 2 };
const TABLE = "0 2048 linear 7:0 0";

function has(role: MappedRole, of: Partial<MappedDevice> = {}): MappedDevice {
  return { role, number: "254:0", openCount: 0, isSuspended: false, hasInactiveTable: false, table: TABLE, ...of };
}

/** Returns the verbs of the steps, and of those on what each is done. */
const verbs = (steps: readonly (readonly string[])[]) => steps.map(([verb]) => verb);

describe("names of device-mapper's devices", () => {
  for (const role of [guard, onFile, leg, disk, part])
    it(`say what ${nameOf("", role)} is`, () => {
      expect(parseUuid(OWNER, uuidOf(OWNER, role))).to.deep.equal(role);
      expect(parseUuid("ba9876543210", uuidOf(OWNER, role))).to.equal(undefined);
    });

  it("fit into the kernel's fields with the longest ids", () => {
    const deviceId = "x".repeat(64) as DeviceId;
    const longest = { kind: "leg", sessionNumber: 2 ** 53 - 1, offsetBytes: 2 ** 53 - 1, deviceId } as const;
    expect(nameOf(OWNER, longest).length).to.be.at.most(127);
    expect(uuidOf(OWNER, longest).length).to.be.at.most(128);
    expect(parseUuid(OWNER, uuidOf(OWNER, longest))).to.deep.equal(longest);
  });

  for (const key of [
    "leg-7-0-",
    "leg-7-a",
    "disk-7-1-../x",
    "guard-7_0",
    "guard-7-1",
    "other-7-1-a",
    "leg-12345678901234567-0-a",
  ])
    it(`of another form, such as ${key}, are nobody's`, () => {
      expect(parseUuid(OWNER, `DISKMESH-${OWNER}-${key}`)).to.equal(undefined);
    });
});

describe("the kernel's tables", () => {
  it("are read from dmsetup's lists, without devices of others", () => {
    const uuids = [guard, leg, disk].map((role) => `${uuidOf(OWNER, role)} ${nameOf(OWNER, role)}`);
    const info = [
      `${uuids[0]} 254 0 2 Active Live`,
      " vg-root 254 1 1 Active Live",
      `${uuids[1]} 254 2 1 Suspended Both`,
      `${uuids[2]} 254 3 0 Active None`,
      "",
    ].join("\n");
    const tables = [
      `${nameOf(OWNER, guard)}: 0 2048 linear 7:0 0`,
      `${nameOf(OWNER, leg)}: 0 8 linear 254:0 8`,
      `${nameOf(OWNER, leg)}: 8 8 linear 254:0 64`,
      `${nameOf(OWNER, disk)}: `,
      "vg-root: 0 8 linear 8:0 0",
    ].join("\n");
    expect(parseMapped(OWNER, info, tables)).to.deep.equal([
      has(guard, { openCount: 2 }),
      has(leg, {
        number: "254:2",
        openCount: 1,
        isSuspended: true,
        hasInactiveTable: true,
        table: "0 8 linear 254:0 8\n8 8 linear 254:0 64",
      }),
      has(disk, { number: "254:3", table: "" }),
    ]);
  });

  it("tell the session of a disk's device of any agent", () => {
    expect(sessionOfUuid(uuidOf(OWNER, disk))).to.equal(7);
    for (const role of [guard, leg]) expect(sessionOfUuid(uuidOf(OWNER, role))).to.equal(undefined);
    expect(sessionOfUuid("LVM-disk-7-1-a")).to.equal(undefined);
  });

  it("are none where there is no device", () => {
    expect(parseMapped(OWNER, "No devices found\n", "No devices found\n")).to.deep.equal([]);
  });

  it("of a disk join its parts", () => {
    const table = linearTable([
      { on: "254:1", offsetBytes: 0, sizeBytes: MIB },
      { on: "254:2", offsetBytes: 2 * MIB, sizeBytes: 3 * MIB },
    ]);
    expect(table).to.equal("0 2048 linear 254:1 0\n2048 6144 linear 254:2 4096");
    expect(sizeOfTable(table)).to.equal(4 * MIB);
  });

  it("of a disk with a part that was split is the one of the whole part", () => {
    const whole = { on: "254:1", offsetBytes: MIB, sizeBytes: 3 * MIB };
    const pieces = [
      { ...whole, sizeBytes: MIB },
      { ...whole, offsetBytes: 2 * MIB, sizeBytes: 2 * MIB },
    ];
    expect(linearTable(pieces)).to.equal(linearTable([whole]));
    expect(linearTable(pieces.reverse()).split("\n")).to.have.length(2);
  });

  for (const [table, wiped] of [
    ["0 8 error", true],
    ["0 8 error\n8 8 error", true],
    ["0 8 error\n8 8 linear 7:0 0", false],
    [TABLE, false],
    ["", false],
  ] as const)
    it(`${JSON.stringify(table)} ${wiped ? "is wiped" : "is not wiped"}`, () => {
      expect(isWiped({ table })).to.equal(wiped);
    });
});

describe("the steps to a device", () => {
  const steps = (found: MappedDevice | undefined, table = TABLE) => stepsTo(OWNER, found, { role: leg, table });

  it("make it in one call", () => {
    expect(steps(undefined)).to.deep.equal([
      ["create", "-v", nameOf(OWNER, leg), "--uuid", uuidOf(OWNER, leg), "--table", TABLE],
    ]);
  });

  it("make a read-only device read-only", () => {
    expect(stepsTo(OWNER, undefined, { role: disk, table: TABLE, isReadOnly: true })[0]).to.include("--readonly");
  });

  it("are none once it is there", () => {
    expect(steps(has(leg))).to.deep.equal([]);
  });

  it("exchange its table by one resume, without a flush and without freezing a file system", () => {
    expect(steps(has(leg), "0 4096 linear 7:0 0")).to.deep.equal([
      ["load", nameOf(OWNER, leg), "--table", "0 4096 linear 7:0 0"],
      ["resume", "--noflush", "--nolockfs", nameOf(OWNER, leg)],
    ]);
  });

  for (const [what, of, expected] of [
    ["a load", { hasInactiveTable: true }, ["clear"]],
    ["a load and a suspend", { hasInactiveTable: true, isSuspended: true }, ["clear", "resume"]],
    ["a suspend", { isSuspended: true }, ["resume"]],
    ["a create without its table", { isSuspended: true, table: "" }, ["remove"]],
    ["a create with its table only loaded", { isSuspended: true, hasInactiveTable: true, table: "" }, ["remove"]],
  ] as const)
    it(`first undo ${what} of a former life`, () => {
      expect(verbs(steps(has(leg, of)))).to.deep.equal(expected);
      expect(verbs(settlingSteps(OWNER, has(leg, of)))).to.deep.equal(expected);
    });

  it("of a settled device are none", () => {
    expect(settlingSteps(OWNER, has(leg))).to.deep.equal([]);
  });

  it("end in what should be from every state, however many calls are missing", () => {
    const table = "0 4096 linear 7:0 0";
    const states = [undefined, ...[TABLE, table, "", "0 8 error"].flatMap((at) => variants(has(leg, { table: at })))];
    for (const start of states)
      for (let done = 0; done < 3; done++) {
        // Makes `done` calls of each round but the last, as a life that is killed does.
        let state = runSome(start, steps(start, table), done, table);
        for (let round = 0; round < 4 && steps(state, table).length > 0; round++)
          state = runSome(state, steps(state, table), Number.POSITIVE_INFINITY, table);
        expect(state, JSON.stringify({ start, done })).to.deep.equal(has(leg, { table }));
      }
  });
});

function variants(device: MappedDevice): MappedDevice[] {
  return [false, true].flatMap((isSuspended) =>
    [false, true].map((hasInactiveTable) => ({ ...device, isSuspended, hasInactiveTable })),
  );
}

/** Kernel with one device: makes the first calls of dmsetup. */
function runSome(
  start: MappedDevice | undefined,
  calls: readonly (readonly string[])[],
  count: number,
  table: string,
): MappedDevice | undefined {
  let state = start;
  for (const [verb] of calls.slice(0, count)) {
    if (verb === "create") state = has(leg, { table });
    else if (verb === "remove" || state === undefined) state = undefined;
    else if (verb === "load") state = { ...state, hasInactiveTable: true };
    else if (verb === "clear") state = { ...state, hasInactiveTable: false };
    else {
      const inPlace = state.hasInactiveTable ? table : state.table;
      state = { ...state, isSuspended: false, hasInactiveTable: false, table: inPlace };
    }
  }
  return state;
}

describe("a disk's device", () => {
  it("has another name than a former one of its session, which may still be mounted", () => {
    const found = [has(disk), has({ ...disk, making: 4 }), has({ ...disk, sessionNumber: 8, making: 9 }), has(leg)];
    expect(lastMaking(found)).to.equal(9);
    expect(lastMaking([])).to.equal(0);
    expect(lastDeviceOf(found, disk.diskId, 7)?.role.making).to.equal(4);
    expect(lastDeviceOf(found, disk.diskId, 9)).to.equal(undefined);
  });

  it("has the number that its creation prints", () => {
    const output =
      "Name:              diskmesh-x\nState:             ACTIVE\nMajor, minor:      254, 17\nNumber of targets: 1\n";
    expect(createdNumber(output)).to.equal("254:17");
    expect(createdNumber("")).to.equal(undefined);
  });

  it("lies on other hosts where a part is no device of device-mapper", () => {
    const local = "0 8 linear 254:1 0\n8 8 linear 254:2 0";
    expect(isOnOthers(has(disk, { number: "254:9", table: local }))).to.equal(false);
    const mixed = has(disk, { number: "254:9", table: `${local}\n16 8 linear 259:1 0` });
    expect(isOnOthers(mixed)).to.equal(true);
    expect(withoutOwn(mixed)).to.equal("0 8 error\n8 8 error\n16 8 linear 259:1 0");
    expect(isOnOthers(has(disk, { number: "254:9", table: "0 8 error" }))).to.equal(false);
  });

  it("has as many events as the kernel says", () => {
    expect(
      eventsOf("Open count:        0\nEvent number:      12\nMajor, minor:      254, 9\n\n0 8 linear \n"),
    ).to.equal(12);
  });

  it("is cut off its legs by a wipe, and keeps its parts on other hosts", () => {
    const name = nameOf(OWNER, disk);
    const cut = (table: string, isReadOnly = false) =>
      cutSteps(OWNER, has(disk, { number: "254:9", table }), { isReadOnly });
    const wiped = [["wipe_table", "--noflush", "--nolockfs", name]];
    for (const table of ["0 8 linear 254:1 0", "0 8 error", ""]) expect(cut(table)).to.deep.equal(wiped);
    const mixed = "0 8 linear 254:1 0\n8 8 linear 259:1 0";
    expect(cut(mixed, true)).to.deep.equal([
      ["load", name, "--readonly", "--table", "0 8 error\n8 8 linear 259:1 0"],
      ["resume", "--noflush", "--nolockfs", name],
    ]);
    expect(cut("0 8 linear 259:1 0")).to.deep.equal([]);
  });

  it("is cut off both copies of a part, and stays on the part's device that was cut itself", () => {
    const mirror = (first: string, second: string) =>
      `0 8 mirror core 2 8 nosync 2 ${first} 4 ${second} 6 1 handle_errors`;
    const number = "254:9";
    expect(numbersBelow({ number, table: mirror("254:1", "254:2") })).to.deep.equal(["254:1", "254:2"]);
    for (const [table, rest] of [
      [mirror("254:1", "254:2"), "0 8 error"],
      [mirror("254:1", "259:2"), "0 8 linear 259:2 6"],
      [mirror("259:1", "259:2"), "0 8 linear 259:1 4"],
    ] as const)
      expect(withoutOwn({ number, table })).to.equal(rest);
    const table = "0 8 linear 254:5 0\n8 8 linear 254:1 0";
    expect(withoutOwn({ number, table }, ["254:5"])).to.equal("0 8 linear 254:5 0\n8 8 error");
    expect(numbersBelow({ number, table }, ["254:5"])).to.deep.equal(["254:1"]);
    const cut = cutSteps(OWNER, has(disk, { number, table: "0 8 linear 254:5 0" }), { kept: ["254:5"] });
    expect(cut).to.deep.equal([]);
  });

  it("lies on each of its legs once, and on no other driver's device", () => {
    const table = "0 8 linear 254:1 0\n8 8 linear 259:1 0\n16 8 linear 254:2 0\n24 8 linear 254:1 64\n32 8 error";
    expect(numbersBelow({ number: "254:9", table })).to.deep.equal(["254:1", "254:2"]);
    for (const of of [
      { number: "254:0", table: TABLE },
      { number: "7:1", table: "0 8 linear 70:1 0" },
    ])
      expect(numbersBelow(of)).to.deep.equal([]);
  });

  it("ends after the wipe of its legs, and before their removal", () => {
    const { wipe, remove } = inOrderOfEnd([has(guard), has(disk), has(leg), has(part)]);
    expect(wipe).to.deep.equal([leg, part, disk]);
    expect(remove).to.deep.equal([disk, part, leg, guard]);
  });
});
