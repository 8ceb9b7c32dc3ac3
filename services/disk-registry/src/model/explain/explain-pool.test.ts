import { type ExplainRow, HOST, POOL, testCauses } from "../../testing/causes.js";

const NO_ROOM = { reason: "POOL_ROOM", commands: ["diskmesh disks"] };

const rows: readonly ExplainRow[] = [
  [
    "nobody has added a device",
    POOL,
    { device: { attachState: "UNKNOWN" } },
    [
      {
        ...NO_ROOM,
        says: /^pool default: 0 bytes are free, \d+ \wiB on devices that have not been added$/,
        commands: ["diskmesh add-host h1", "diskmesh disks"],
      },
    ],
  ],
  [
    "nobody has added a device, and its host is DEAD, so AddHost would be refused",
    POOL,
    { device: { attachState: "UNKNOWN" }, host: { state: "DEAD" } },
    [{ ...NO_ROOM, says: /on devices that have not been added$/ }],
  ],
  ["a device is free", POOL, {}, [{ ...NO_ROOM, says: /^pool default: \d+ \wiB are free$/ }]],
  [
    "a device with slices is free",
    POOL,
    { device: { sliceBytes: 2 ** 20 } },
    [{ ...NO_ROOM, says: /^pool default: 63 MiB are free \(the largest free run has room for 62.9 MiB\)$/ }],
  ],
  [
    "a disk lies on it",
    POOL,
    { disk: {} },
    [{ ...NO_ROOM, says: /^pool default: 0 bytes are free, \d+ \wiB in use$/ }],
  ],
  ["it is to be erased", POOL, { device: { dirty: true } }, [{ ...NO_ROOM, says: /\d+ \wiB to be erased first$/ }]],
  [
    "its drive is broken",
    POOL,
    { device: { health: "ERROR" } },
    [{ ...NO_ROOM, says: /\d+ \wiB on hosts or devices that take no new disks now$/ }],
  ],
  [
    "its host is away",
    POOL,
    { host: { state: "UNAVAILABLE" } },
    [{ ...NO_ROOM, says: /\d+ \wiB on hosts or devices that take no new disks now$/, becauseOf: [HOST] }],
  ],
];

describe("the causes of a pool", () => testCauses(rows));
