import {
  DEVICE,
  DISK,
  type ExplainRow,
  HOST,
  h2,
  OTHER_HOST,
  published,
  testCauses,
  word,
} from "../../testing/causes.js";
import { deviceId, diskId } from "../../testing/fleet-fixture.js";

const OPEN = {
  requests: 3,
  oldestAtMs: 200,
  heardAtMs: 5_200,
  throttled: 0,
  waitsForDevice: undefined,
  waitsForBlockDevice: "",
};
const FEW_READS = { readIops: 5, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };

const rows: readonly ExplainRow[] = [
  ["all is well", DISK, { disk: { publication: published("PUBLISHED") } }, []],
  [
    "its device is well, and the host that serves it is not heard",
    DISK,
    { otherHost: { state: "UNAVAILABLE" }, disk: { publication: published("PUBLISHED") } },
    [
      {
        reason: "HOST_IN_TROUBLE",
        says: /disk x is published to host h2, which may not serve it: .*UNAVAILABLE/,
        sinceMs: 500,
        becauseOf: [OTHER_HOST],
      },
    ],
  ],
  [
    "its host says that nobody can use it there",
    DISK,
    { disk: { publication: published("PUBLISHED", { problem: { message: "nbdfuse has ended", sinceMs: 400 } }) } },
    [
      {
        reason: "UNUSABLE_ON_HOST",
        says: /disk x cannot be used on host h2: nbdfuse has ended/,
        sinceMs: 400,
        becauseOf: [OTHER_HOST],
      },
    ],
  ],
  [
    "it was fenced, and nobody has asked for it since",
    DISK,
    { disk: { fence: { hostId: h2, ...word } } },
    [
      {
        reason: "FENCED",
        says: /disk x was taken from host h2 by operator ada \(no power\), and is not published/,
        sinceMs: 300,
        becauseOf: [OTHER_HOST],
      },
    ],
  ],
  [
    "it was fenced, and whoever did it gave no reason",
    DISK,
    { disk: { fence: { hostId: h2, ...word, reason: "" } } },
    [{ reason: "FENCED", says: /by operator ada, and is not published/, sinceMs: 300, becauseOf: [OTHER_HOST] }],
  ],
  [
    "it is not served yet",
    DISK,
    { disk: { publication: published("PUBLISHING") } },
    [
      {
        reason: "PUBLICATION_PENDING",
        says: /host h2 does not serve disk x yet, in session 7, after 2 tries: timed out/,
        becauseOf: [OTHER_HOST, DEVICE],
      },
    ],
  ],
  [
    "it was asked for just now",
    DISK,
    { disk: { publication: published("PUBLISHING", { attempts: 0, lastError: "" }) } },
    [
      {
        reason: "PUBLICATION_PENDING",
        says: /does not serve disk x yet, in session 7$/,
        isRoutine: true,
        becauseOf: [OTHER_HOST, DEVICE],
      },
    ],
  ],
  [
    "its host has not confirmed its new limits",
    DISK,
    { disk: { publication: published("PUBLISHED", { revision: 2, confirmedRevision: 1 }) } },
    [
      {
        reason: "CHANGE_PENDING",
        says: /host h2 does not serve disk x with its present limits and size yet, after 2 tries: timed out/,
        becauseOf: [OTHER_HOST, DEVICE],
      },
    ],
  ],
  [
    "a fence waits for a device of a silent host",
    DISK,
    {
      host: { state: "UNAVAILABLE" },
      disk: { publication: published("UNPUBLISHING"), fence: { ...word, hostId: h2 } },
    },
    [
      {
        reason: "UNPUBLICATION_PENDING",
        says: /unpublished from host h2 \(fenced by operator ada: no power\)/,
        sinceMs: 300,
        becauseOf: [DEVICE, OTHER_HOST],
      },
      {
        reason: "DEVICE_IN_TROUBLE",
        says: /cannot be reached: .*UNAVAILABLE/,
        sinceMs: 500,
        becauseOf: [DEVICE, HOST],
      },
    ],
  ],
  [
    "its device is in error",
    DISK,
    { disk: {}, device: { health: "ERROR", healthMessage: "EIO", unwellSinceMs: 450 } },
    [
      {
        reason: "DEVICE_IN_TROUBLE",
        says: /^disk x cannot be used: device d1 on host h1: EIO$/,
        sinceMs: 450,
        becauseOf: [DEVICE],
      },
    ],
  ],
  ...(
    [
      ["limits delay requests", { throttled: 2 }, /^disk x is throttled on host h2 to 5 reads\/s: 2 requests wait/, []],
      [
        "its device does not answer",
        { waitsForDevice: deviceId("d1") },
        /^3 requests .* h2 are not .*: device d1/,
        [DEVICE],
      ],
      [
        "its block device does not answer",
        { waitsForBlockDevice: "/dev/loop3" },
        /block device \/dev\/loop3/,
        [OTHER_HOST],
      ],
      ["nobody knows why requests wait", {}, /^3 requests of disk x on host h2 are not answered$/, [OTHER_HOST]],
    ] as const
  ).map(([title, fields, says, becauseOf]): ExplainRow => {
    const openIoOf = () => ({ ...OPEN, ...fields });
    const throttled = becauseOf.length === 0;
    return [
      title,
      DISK,
      { disk: { publication: published("PUBLISHED"), limits: FEW_READS }, known: { openIoOf } },
      [
        {
          reason: "IO_STANDS",
          says,
          sinceMs: 200,
          ...(throttled ? { commands: ["diskmesh limits x --none"] } : { becauseOf }),
        },
      ],
    ];
  }),
  [
    "a request is open for a moment only",
    DISK,
    { disk: { publication: published("PUBLISHED") }, known: { openIoOf: () => ({ ...OPEN, heardAtMs: 5_199 }) } },
    [],
  ],
  [
    "requests wait because the host cannot use the disk",
    DISK,
    {
      disk: { publication: published("PUBLISHED", { problem: { message: "the process has ended", sinceMs: 100 } }) },
      known: { openIoOf: () => OPEN },
    },
    [{ reason: "UNUSABLE_ON_HOST", says: /the process has ended/, sinceMs: 100, becauseOf: [OTHER_HOST] }],
  ],
  [
    "its device was taken out of operation",
    DISK,
    { disk: {}, device: { attachState: "DETACHED", stateChangedAtMs: 600 } },
    [{ reason: "DEVICE_IN_TROUBLE", says: /on host h1 is DETACHED$/, sinceMs: 600, becauseOf: [DEVICE] }],
  ],
  [
    "the registry forgot it, and an agent remembers it",
    { kind: "DISK", name: diskId("lost") },
    { device: { unknownSession: { sessionNumber: 8, diskId: diskId("lost") } } },
    [
      {
        reason: "FORGOTTEN",
        says: /does not know disk lost, and agents remember it on d1: the registry was restored/,
        becauseOf: [DEVICE],
        cureCount: 1,
      },
    ],
  ],
  ["nobody knows it", { kind: "DISK", name: diskId("lost") }, {}, []],
  [
    "its device may hold another disk's data",
    DISK,
    { disk: {}, device: { unknownSession: { sessionNumber: 8, diskId: diskId("lost") } } },
    [{ reason: "DEVICE_IN_TROUBLE", says: /^disk x cannot be used: .*d1/, becauseOf: [DEVICE] }],
  ],
];

describe("the causes of a disk", () => testCauses(rows));
