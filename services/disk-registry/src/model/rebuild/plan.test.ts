import type { DeviceId, DiskId, HostId, RecordedPart } from "@diskmesh/domain";
import { expect } from "chai";
import type { AgentClaims, DeviceClaims, RememberedRun, RunClaim, ServedDisk } from "./claims.js";
import { planRebuild, type RebuildPlan } from "./plan.js";

const KIB = 1_024;
const MIB = KIB * KIB;
const HEAD = 64 * KIB;
const SLICES = 8;
const FLEET = "fleet-1";
const NOW_MS = 1_000;
const STEP = 2 ** 32;

/** A run of a disk: on which slices, and what its record says. */
interface RunSpec {
  readonly disk?: string;
  readonly first: number;
  readonly count?: number;
  readonly session?: number;
  readonly layout?: number;
  readonly parts?: readonly number[];
  readonly partCount?: number;
  readonly size?: number;
}

const PART = MIB - HEAD;

function claimOf({
  disk = "a",
  first,
  count = 1,
  session = 5,
  layout = 0,
  parts = [0],
  partCount = 1,
  size,
}: RunSpec): RunClaim {
  const placed = parts.map((index): RecordedPart => ({ index, offsetBytes: HEAD, sizeBytes: count * MIB - HEAD }));
  const record = { blockSizeBytes: 4_096, pool: "fast", partCount, parts: placed, layout, clean: true };
  const bytes = { offsetBytes: HEAD + first * MIB, sizeBytes: count * MIB };
  if (disk === "") return { ...bytes, diskId: "", sessionNumber: 0 };
  return {
    ...bytes,
    diskId: disk as DiskId,
    sessionNumber: session,
    record: { ...record, diskSizeBytes: size ?? partCount * PART },
  };
}

/** A session that an agent remembers on slices. */
function remembers(
  first: number,
  session: number,
  {
    disk = "a",
    holder = "",
    isErase = false,
    count = 1,
  }: { disk?: string; holder?: string; isErase?: boolean; count?: number } = {},
): RememberedRun {
  const bytes = { offsetBytes: HEAD + first * MIB, sizeBytes: count * MIB };
  return { ...bytes, sessionNumber: session, diskId: disk as DiskId, holderHostId: holder as HostId, isErase };
}

interface DeviceSpec {
  readonly runs?: readonly RunSpec[];
  readonly remembered?: readonly RememberedRun[];
  readonly label?: Partial<DeviceClaims["label"] & object> | "none";
  readonly isTableDamaged?: boolean;
  readonly floor?: number;
  readonly attached?: boolean;
}

/** Describes the agent of a host with these devices. */
function agent(
  host: string,
  devices: Readonly<Record<string, DeviceSpec>>,
  {
    served = [],
    az = "z1",
    incarnation = "lost",
    session = 0,
  }: { served?: readonly ServedDisk[]; az?: string; incarnation?: string; session?: number } = {},
): AgentClaims {
  const hostId = host as HostId;
  const sizeBytes = HEAD + SLICES * MIB;
  const reported = Object.entries(devices).map(([id, { attached = true }]) => ({
    ...{ deviceId: id as DeviceId, path: `/${id}`, offsetBytes: 0, sizeBytes, blockSizeBytes: 4_096, serialNumber: id },
    ...{
      pool: "fast",
      health: "ONLINE" as const,
      healthMessage: "",
      attached,
      sessionNumber: 0,
      sessionDiskId: "" as const,
    },
  }));
  const carried = Object.entries(devices).flatMap(
    ([id, { runs = [], remembered = [], label, isTableDamaged = false, floor = 0, attached = true }]) => {
      const own = {
        fleetId: FLEET,
        deviceId: id as DeviceId,
        labelId: `label of ${id}`,
        sizeBytes,
        sliceBytes: MIB,
        offsetBytes: 0,
      };
      const claims: DeviceClaims = {
        ...(label !== "none" && { label: { ...own, ...label } }),
        ...{ isTableDamaged, claims: runs.map(claimOf), remembered, floor },
      };
      return attached ? [[id as DeviceId, claims] as const] : [];
    },
  );
  return {
    registration: {
      ...{ hostId, address: `${host}:1`, az, rack: "", bootId: `boot of ${host}`, slices: true },
      devices: reported,
      exports: [],
      remembered: { tabletId: FLEET, incarnation, tabletGeneration: 7, deviceGeneration: 9, sessionNumber: session },
    },
    devices: new Map(carried),
    served,
  };
}

const serves = (
  session: number,
  extents: readonly (readonly [device: string, first: number, own?: number])[],
  change: Partial<ServedDisk> = {},
): ServedDisk => ({
  ...{
    diskId: "a" as DiskId,
    sessionNumber: session,
    exportPath: "/a.sock",
    revision: 0,
    readOnly: false,
    fixedSize: false,
  },
  extents: extents.map(([device, first, own]) => ({
    ...{ deviceId: device as DeviceId, offsetBytes: 2 * HEAD + first * MIB, sizeBytes: PART },
    ...(own !== undefined && { sessionNumber: own }),
  })),
  ...change,
});

const plan = (...agents: readonly AgentClaims[]): RebuildPlan => planRebuild(agents, { fleetId: FLEET, nowMs: NOW_MS });

/** Returns the disks as "disk: device/first+skip ..., host/session", and what is left and held. */
function shown({ disks, leftDisks, devices, leftDevices }: RebuildPlan) {
  return {
    disks: disks.map(({ diskId, parts, publication }) => {
      const places = parts.flatMap(({ copies }) =>
        copies.map(({ deviceId, first, skipBytes }) => `${deviceId}/${first}${skipBytes ? `+${skipBytes}` : ""}`),
      );
      const held = publication && ` at ${publication.hostId} in ${publication.sessionNumber}`;
      return `${diskId}: ${places.join(" ")}${held ?? ""}`;
    }),
    left: leftDisks.map(({ diskId, reason }) => `${diskId}: ${reason}`),
    held: devices.flatMap(({ deviceId, unknownSession: held }) =>
      held ? `${deviceId}: ${held.diskId} ${held.sessionNumber}` : [],
    ),
    leftDevices: leftDevices.map(({ deviceId, reason }) => `${deviceId}: ${reason}`),
  };
}

const NOTHING = { disks: [], left: [], held: [], leftDevices: [] };

describe("planRebuild", () => {
  interface Row {
    readonly title: string;
    readonly agents: readonly AgentClaims[];
    readonly expected: Partial<ReturnType<typeof shown>>;
  }
  const rows: readonly Row[] = [
    {
      title: "a record of the only part -> the disk",
      agents: [agent("h1", { d1: { runs: [{ first: 2 }] } })],
      expected: { disks: ["a: d1/2"] },
    },
    {
      title: "two parts on two hosts -> the disk, in the order of its parts",
      agents: [
        agent("h1", { d1: { runs: [{ first: 0, parts: [1], partCount: 2 }] } }),
        agent("h2", { d2: { runs: [{ first: 3, parts: [0], partCount: 2 }] } }),
      ],
      expected: { disks: ["a: d2/3 d1/0"] },
    },
    {
      title: "a part is missing -> not rebuilt, and its device is held",
      agents: [agent("h1", { d1: { runs: [{ first: 0, parts: [0], partCount: 2 }] } })],
      expected: { left: ["a: part 2 of 2 was not found"], held: ["d1: a 5"] },
    },
    {
      title: "a higher session of the part elsewhere -> the newer one, and the older one is held",
      agents: [agent("h1", { d1: { runs: [{ first: 0, session: 5 }] }, d2: { runs: [{ first: 1, session: 6 }] } })],
      expected: { disks: ["a: d2/1"], held: ["d1: a 5"] },
    },
    {
      title: "a higher layout of one session -> the newer one",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }] }, d2: { runs: [{ first: 1, layout: 1 }] } })],
      expected: { disks: ["a: d2/1"], held: ["d1: a 5"] },
    },
    {
      title: "a copy whose record counts for nothing -> the source, and the copy is held",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }] }, d2: { runs: [{ first: 1, parts: [] }] } })],
      expected: { disks: ["a: d1/0"], held: ["d2: a 5"] },
    },
    {
      title: "one part twice, in one session and layout -> not rebuilt",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }] }, d2: { runs: [{ first: 1 }] } })],
      expected: {
        left: ["a: part 1 of 1 was found on device d1, slices 0 to 0, and on device d2, slices 1 to 1"],
        held: ["d1: a 5", "d2: a 5"],
      },
    },
    {
      title: "the newest record has another size than the parts -> not rebuilt",
      agents: [agent("h1", { d1: { runs: [{ first: 0, size: 2 * PART }] } })],
      expected: {
        left: [`a: its parts have ${PART} bytes, and the newest record says ${2 * PART}`],
        held: ["d1: a 5"],
      },
    },
    {
      title: "a later session of another disk on its bytes -> not rebuilt",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }], remembered: [remembers(0, 8, { disk: "b" })] } })],
      expected: { left: ["a: disk b has a later session on bytes of device d1, slices 0 to 0"], held: ["d1: b 8"] },
    },
    {
      title: "a later erase of its bytes -> the disk was deleted, and the bytes are dirty",
      agents: [
        agent("h1", { d1: { runs: [{ first: 0 }], remembered: [remembers(0, 8, { disk: "", isErase: true })] } }),
      ],
      expected: {},
    },
    {
      title: "a run without a whole record -> held",
      agents: [agent("h1", { d1: { runs: [{ disk: "", first: 0 }], remembered: [remembers(0, 4, { disk: "c" })] } })],
      expected: { held: ["d1: c 4"] },
    },
    {
      title: "an agent that remembers a disk whose table has no run of it -> held",
      agents: [agent("h1", { d1: { remembered: [remembers(0, 4, { disk: "c" })] } })],
      expected: { held: ["d1: c 4"] },
    },
    {
      title: "parts in two azs -> not rebuilt",
      agents: [
        agent("h1", { d1: { runs: [{ first: 0, partCount: 2 }] } }),
        agent("h2", { d2: { runs: [{ first: 0, parts: [1], partCount: 2 }] } }, { az: "z2" }),
      ],
      expected: { left: ["a: its parts are in azs z1 and z2"], held: ["d1: a 5", "d2: a 5"] },
    },
    {
      title: "a host serves it in the session of every run -> published there",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }] } }), agent("h2", {}, { served: [serves(5, [["d1", 0]])] })],
      expected: { disks: ["a: d1/0 at h2 in 5"] },
    },
    {
      title: "a host serves it with a run that was added later -> published there, with the run's own session",
      agents: [
        agent("h1", {
          d1: { runs: [{ first: 0 }] },
          d2: { runs: [{ first: 0, session: 7, layout: 1, parts: [1], partCount: 2 }] },
        }),
        agent(
          "h2",
          {},
          {
            served: [
              serves(
                5,
                [
                  ["d1", 0],
                  ["d2", 0, 7],
                ],
                { revision: 1 },
              ),
            ],
          },
        ),
      ],
      expected: { disks: ["a: d1/0 d2/0 at h2 in 5"] },
    },
    {
      title: "a host serves it in a session that was fenced -> not published",
      agents: [
        agent("h1", { d1: { runs: [{ first: 0 }], remembered: [remembers(0, 6)] } }),
        agent("h2", {}, { served: [serves(5, [["d1", 0]])] }),
      ],
      expected: { disks: ["a: d1/0"] },
    },
    {
      title: "a host serves it from other bytes, in the highest session -> not rebuilt",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }] } }), agent("h2", {}, { served: [serves(5, [["d1", 1]])] })],
      expected: { left: ["a: host h2 serves it from bytes that devices do not give to it"], held: ["d1: a 5"] },
    },
    {
      title: "a host that did not answer holds it -> published there",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }], remembered: [remembers(0, 5, { holder: "h9" })] } })],
      expected: { disks: ["a: d1/0 at h9 in 5"] },
    },
    {
      title: "a host that answered holds it and serves nothing -> not published",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }], remembered: [remembers(0, 5, { holder: "h1" })] } })],
      expected: { disks: ["a: d1/0"] },
    },
    {
      title: "a served disk without a record -> not rebuilt",
      agents: [agent("h1", { d1: {} }, { served: [serves(5, [["d1", 0]])] })],
      expected: {
        left: ["a: host h1 serves it, and no record of it was found: its devices have no slices, or were not read"],
      },
    },
    {
      title: "the label of another fleet -> the device is not taken over",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }], label: { fleetId: "other" } } })],
      expected: { leftDevices: ["d1: it carries a label of fleet other"] },
    },
    {
      title: "one label on two drives -> neither is taken over",
      agents: [agent("h1", { d1: { label: { labelId: "x" } } }), agent("h2", { d2: { label: { labelId: "x" } } })],
      expected: {
        leftDevices: ["d1: devices d1 and d2 carry the same label", "d2: devices d1 and d2 carry the same label"],
      },
    },
    {
      title: "an adopted drive, with the label of a place that is gone -> taken over",
      agents: [agent("h1", { d1: { runs: [{ first: 0 }], label: { deviceId: "gone" as DeviceId } } })],
      expected: { disks: ["a: d1/0"] },
    },
    {
      title:
        "the label of a device that is there, no label, a damaged table, a smaller drive, a closed one -> not taken over",
      agents: [
        agent("h1", {
          d1: { label: { deviceId: "d2" as DeviceId } },
          d2: { label: "none" },
          d3: { isTableDamaged: true },
          d4: { label: { sizeBytes: 100 * MIB } },
          d5: { attached: false },
        }),
      ],
      expected: {
        leftDevices: [
          "d1: it carries the label of device d2",
          "d2: it carries no label",
          "d3: its table of runs is damaged",
          `d4: its label is of ${100 * MIB} bytes from byte 0, and it has ${HEAD + SLICES * MIB} from byte 0`,
          "d5: its agent does not hold it",
        ],
      },
    },
    {
      title: "one device id on two hosts -> neither is taken over",
      agents: [agent("h1", { d1: {} }), agent("h2", { d1: { label: { labelId: "y" } } })],
      expected: {
        leftDevices: ["d1: hosts h1 and h2 have a device of this id", "d1: hosts h1 and h2 have a device of this id"],
      },
    },
    {
      title: "a claim that begins on no slice, or ends behind the last one -> held",
      agents: [agent("h1", { d1: { runs: [{ first: 0.5 }] }, d2: { runs: [{ first: SLICES - 1, count: 2 }] } })],
      expected: { held: ["d1: a 5", "d2: a 5"] },
    },
  ];
  for (const { title, agents, expected } of rows)
    it(title, () => expect(shown(plan(...agents))).to.deep.equal({ ...NOTHING, ...expected }));

  it("numbers begin 2^32 above the highest that was heard, from an agent, a record, a session or a floor, and none is its own", () => {
    for (const heard of [
      agent("h1", {}, { session: 90 }),
      agent("h1", { d1: { runs: [{ first: 0, session: 90 }] } }),
      agent("h1", { d1: { remembered: [remembers(0, 90)] } }),
      agent("h1", { d1: { floor: 90 } }),
    ]) {
      const { counters, tabletGeneration } = plan(heard);
      expect(counters.find(({ name }) => name === "session_number")).to.deep.equal({
        name: "session_number",
        value: 90 + STEP,
        gaps: [{ above: 0, upTo: 90 + STEP }],
      });
      expect(tabletGeneration).to.equal(7 + 2 ** 20);
    }
  });

  it("every device has a generation of its own, above those that agents remember, and the counter ends at the last one", () => {
    const { devices, counters } = plan(agent("h1", { d1: {}, d2: {} }));
    expect(devices.map(({ generation }) => generation)).to.deep.equal([9 + STEP + 1, 9 + STEP + 2]);
    expect(counters[0]).to.deep.include({ name: "device_generation", value: 9 + STEP + 2 });
  });

  it("all bytes that no rebuilt disk has are erased before their use", () => {
    const { devices } = plan(agent("h1", { d1: { runs: [{ first: 2, count: 3, size: 3 * MIB - HEAD }] } }));
    expect(devices[0]?.runs).to.deep.equal([
      { first: 0, count: 2, diskId: "" },
      { first: 2, count: 3, diskId: "a" },
      { first: 5, count: 3, diskId: "" },
    ]);
  });

  it("hosts must register before they get an order, and the lost incarnations' agents belong to the registry", () => {
    const { hosts, fleets } = plan(agent("h1", {}), agent("h2", {}, { incarnation: "older" }));
    expect(hosts.map(({ hostId, mustRegister }) => [hostId, mustRegister])).to.deep.equal([
      ["h1", true],
      ["h2", true],
    ]);
    expect(fleets.map(({ tabletId, incarnation, adoptedAtMs }) => [tabletId, incarnation, adoptedAtMs])).to.deep.equal([
      [FLEET, "lost", NOW_MS],
      [FLEET, "older", NOW_MS],
    ]);
  });

  it("a host that holds a disk and did not answer is UNAVAILABLE, so that an operator can take the disk from it", () => {
    const { hosts, silentHolders } = plan(
      agent("h1", { d1: { runs: [{ first: 0 }], remembered: [remembers(0, 5, { holder: "h9" })] } }),
    );
    expect(silentHolders).to.deep.equal(["h9"]);
    expect(hosts[1]).to.deep.include({ hostId: "h9", state: "UNAVAILABLE", mustRegister: true, az: "z1" });
  });
});
