import { inPlaceOf, type Mutation } from "./mutation.js";

const ON_SLICES = { withinSeeds: 900, foundBy: 4, scenario: "disks on slices" } as const;

/** Mistakes about the runs of drives that disks share, and about drives that are adopted. */
export const SLICE_MUTATIONS: readonly Mutation[] = [
  {
    name: "keep-former-sessions",
    mistake: "sessions of a device's former drive go on with the drive that the device has adopted",
    withinSeeds: 900,
    foundBy: 295,
    scenario: "drives are adopted",
    replaced: [inPlaceOf("disk-agent/model/sessions", "endSessionsUpTo", () => (memory) => memory)],
  },
  {
    name: "stay-at-path",
    mistake: "a device stays at its path while its drive is at another one",
    withinSeeds: 900,
    foundBy: 67,
    scenario: "drives change places",
    replaced: [
      inPlaceOf(
        "disk-agent/orders/follow-drives",
        "FollowDrives",
        ({ FollowDrives }) =>
          class extends FollowDrives {
            override async look() {}
          },
      ),
    ],
  },
  {
    ...ON_SLICES,
    withinSeeds: 4_500,
    foundBy: 304,
    name: "grant-overlapping",
    mistake: "the agent takes runs that overlap, and begin at other bytes, for different ones",
    replaced: [inPlaceOf("disk-agent/model/runs", "overlaps", () => (a, b) => a.offsetBytes === b.offsetBytes)],
  },
  {
    ...ON_SLICES,
    name: "forget-the-floor",
    mistake: "the agent forgets an erased run without a floor",
    replaced: [
      inPlaceOf("disk-agent/model/sessions", "forgetErased", ({ forgetErased }) => (memory, run, number) => {
        const after = forgetErased(memory, run, number);
        const { floor } = memory.devices.get(run.deviceId) ?? {};
        const device = after.devices.get(run.deviceId);
        return { ...after, devices: new Map(after.devices).set(run.deviceId, { ...device, floor }) };
      }),
    ],
  },
  {
    ...ON_SLICES,
    name: "erase-next-slice",
    mistake: "an erase is ordered for a range that is shifted by a slice",
    replaced: [
      inPlaceOf("disk-registry/model/store/slices", "orderedBytes", ({ orderedBytes }) => (device, run) => {
        const range = orderedBytes(device, run);
        if (run.diskId !== "" || range.sizeBytes === 0) return range;
        return { ...range, offsetBytes: range.offsetBytes + (device.sliceBytes ?? 0) };
      }),
    ],
  },
  {
    ...ON_SLICES,
    name: "reuse-before-erase",
    mistake: "slices are given to a disk before what was on them is erased",
    replaced: [
      inPlaceOf(
        "disk-registry/model/store/slices",
        "spacesOf",
        ({ spacesOf }) =>
          (device) =>
            spacesOf({ ...device, runs: device.runs.filter(({ diskId }) => diskId !== "") }),
      ),
    ],
  },
  {
    ...ON_SLICES,
    withinSeeds: 8_100,
    foundBy: 2494,
    name: "shorten-range",
    mistake: "a late order shortens the range of a session that has grown",
    replaced: [
      inPlaceOf("disk-agent/model/sessions", "decideOpenSession", ({ decideOpenSession }) => (memory, run, wish) => {
        const device = memory.devices.get(run.deviceId);
        const isLonger = (each: { number: number; offsetBytes: number; sizeBytes: number }) =>
          each.number === wish.number && each.offsetBytes === run.offsetBytes && each.sizeBytes > run.sizeBytes;
        const sessions = (device?.sessions ?? []).filter((each) => !isLonger(each));
        if (sessions.length === device?.sessions?.length) return decideOpenSession(memory, run, wish);
        const devices = new Map(memory.devices).set(run.deviceId, { ...device, sessions });
        return decideOpenSession({ ...memory, devices }, run, wish);
      }),
    ],
  },
  {
    ...ON_SLICES,
    foundBy: 484,
    name: "grant-before-table",
    mistake: "the agent opens sessions of runs that the device's table does not have yet",
    replaced: [
      inPlaceOf(
        "disk-agent/labels/run-tables",
        "RunTables",
        ({ RunTables }) =>
          class extends RunTables {
            override async enter(...order: Parameters<InstanceType<typeof RunTables>["enter"]>) {
              void super.enter(...order);
              return undefined;
            }
          },
      ),
    ],
  },
  {
    ...ON_SLICES,
    foundBy: 64,
    name: "grant-before-record",
    mistake: "the agent grants sessions of runs that do not have the record of the session yet",
    replaced: [
      inPlaceOf(
        "disk-agent/labels/run-records",
        "RunRecords",
        ({ RunRecords }) =>
          class extends RunRecords {
            override async write(...order: Parameters<InstanceType<typeof RunRecords>["write"]>) {
              void super.write(...order);
              return undefined;
            }
          },
      ),
    ],
  },
  {
    ...ON_SLICES,
    foundBy: 154,
    name: "erased-run-in-table",
    mistake: "the agent leaves erased runs in the device's table",
    replaced: [
      inPlaceOf(
        "disk-agent/labels/run-tables",
        "RunTables",
        ({ RunTables }) =>
          class extends RunTables {
            override async remove() {
              return undefined;
            }
          },
      ),
    ],
  },
  {
    ...ON_SLICES,
    withinSeeds: 38_000,
    foundBy: 12852,
    scenario: "parts are split",
    name: "free-run-of-other-part",
    mistake: "a run is freed when the first of the parts has moved into which its part was split",
    replaced: [
      inPlaceOf("disk-registry/model/store/layout", "leftBy", ({ freeCopy }) => (tx, before, copies, disk) => {
        for (const copy of copies) freeCopy(tx, before, copy);
        return disk;
      }),
    ],
  },
];
