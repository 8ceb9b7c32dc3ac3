import { DEVICE, DISK, type ExplainRow, HOST, testCauses } from "../../testing/causes.js";
import { deviceId, diskId } from "../../testing/fleet-fixture.js";
import type { Part } from "../store/disk-parts.js";

const replacement = {
  ...{
    path: "/dev/other",
    offsetBytes: 0,
    sizeBytes: 2,
    blockSizeBytes: 512,
    serialNumber: "s-2",
    fileIdentity: "f 2",
  },
};

const moving: readonly Part[] = [
  {
    copies: [{ deviceId: deviceId("d1"), state: "COUNTS" }],
    move: { reason: "REMOVAL", requestedAtMs: 450, attempts: 0, lastError: "" },
  },
];

const rows: readonly ExplainRow[] = [
  ["all is well", DEVICE, {}, []],
  [
    "its host is silent",
    DEVICE,
    { host: { state: "UNAVAILABLE" } },
    [
      {
        reason: "HOST_IN_TROUBLE",
        says: /the state of device d1 is not known: .*UNAVAILABLE/,
        becauseOf: [HOST],
        isRoutine: true,
      },
    ],
  ],
  [
    "nobody added it",
    DEVICE,
    { device: { attachState: "UNKNOWN", detachConfirmed: true } },
    [
      {
        reason: "NOT_ADDED",
        says: /device d1 has not been added/,
        sinceMs: 0,
        isRoutine: true,
        commands: ["diskmesh add-host h1"],
      },
    ],
  ],
  [
    "nobody added it, and its host is DEAD, so AddHost would be refused",
    DEVICE,
    { device: { attachState: "UNKNOWN", detachConfirmed: true }, host: { state: "DEAD" } },
    [{ reason: "NOT_ADDED", says: /device d1 has not been added/, sinceMs: 0, isRoutine: true }],
  ],
  [
    "its agent was ordered to hold it just now",
    DEVICE,
    { device: { attachState: "ATTACHING", stateChangedAtMs: 600 } },
    [
      {
        reason: "ORDER_PENDING",
        says: /has not yet confirmed the order to open device d1 \(generation \d+\)$/,
        sinceMs: 600,
        nextTryAtMs: 900,
        isRoutine: true,
        becauseOf: [HOST],
      },
    ],
  ],
  [
    "its agent does not answer the order",
    DEVICE,
    { device: { attachState: "ATTACHING", generation: 9, attempts: 3, lastError: "timed out", stateChangedAtMs: 600 } },
    [
      {
        reason: "ORDER_PENDING",
        says: /has not yet confirmed the order to open device d1 \(generation 9\) after 3 failed tries: timed out/,
        sinceMs: 600,
        nextTryAtMs: 900,
        becauseOf: [HOST],
      },
    ],
  ],
  [
    "a detach hangs in the operating system",
    DEVICE,
    {
      device: {
        attachState: "CLOSING",
        pending: { message: "2 operations are not answered", sinceMs: 650, inFlightOperations: 2 },
      },
    },
    [
      {
        reason: "ORDER_PENDING",
        says: /has not yet confirmed the order to close device d1 .*: 2 operations are not answered/,
        sinceMs: 650,
        nextTryAtMs: 900,
        becauseOf: [HOST],
      },
    ],
  ],
  [
    "its host is not asked",
    DEVICE,
    { device: { attachState: "ATTACHING" }, host: { state: "UNAVAILABLE" } },
    [{ reason: "ORDER_PENDING", says: /UNAVAILABLE/, sinceMs: 0, nextTryAtMs: 900, becauseOf: [HOST] }],
  ],
  [
    "its hardware failed once",
    DEVICE,
    {
      device: {
        health: "ERROR",
        healthMessage: "EIO",
        keptHealth: {
          hardwareError: { message: "EIO", atMs: 400 },
          reported: { health: "ONLINE", healthMessage: "" },
        },
      },
    },
    [
      {
        reason: "UNHEALTHY",
        says: /health ERROR: EIO/,
        sinceMs: 400,
        commands: ["diskmesh set-device-state online d1"],
      },
    ],
  ],
  [
    "its file is too short",
    DEVICE,
    { device: { health: "ERROR", healthMessage: "too short" } },
    [{ reason: "UNHEALTHY", says: /too short/ }],
  ],
  [
    "its file has grown",
    DEVICE,
    { device: { health: "WARNING", healthMessage: "has grown", grownToBytes: 1 } },
    [{ reason: "UNHEALTHY", says: /has grown/, commands: ["diskmesh add-device h1 d1"] }],
  ],
  [
    "its file has grown, and a disk is on it, so AddDevice would be refused",
    DEVICE,
    { device: { health: "WARNING", healthMessage: "has grown", grownToBytes: 1 }, disk: {} },
    [{ reason: "UNHEALTHY", says: /has grown/ }],
  ],
  [
    "other hardware is in its place",
    DEVICE,
    { device: { replacement } },
    [{ reason: "REPLACED", says: /other hardware .*\/dev\/other/, commands: ["diskmesh add-device h1 d1"] }],
  ],
  [
    "other hardware is in its place, so its health has no cure of its own",
    DEVICE,
    { device: { replacement, health: "ERROR", healthMessage: "other hardware" } },
    [
      { reason: "UNHEALTHY", says: /other hardware/, cureCount: 0 },
      { reason: "REPLACED", says: /other hardware .*\/dev\/other/, commands: ["diskmesh add-device h1 d1"] },
    ],
  ],
  [
    "other hardware is in its place, and a disk is on it, so AddDevice would be refused",
    DEVICE,
    { device: { replacement }, disk: {} },
    [{ reason: "REPLACED", says: /other hardware .*\/dev\/other/ }],
  ],
  [
    "it is being erased",
    DEVICE,
    { device: { dirty: true } },
    [{ reason: "TO_BE_ERASED", says: /\(25 % so far\)/, nextTryAtMs: 900, isRoutine: true, becauseOf: [HOST] }],
  ],
  [
    "its erase fails",
    DEVICE,
    { device: { dirty: true, lastError: "device d1 was not erased: EIO" } },
    [{ reason: "TO_BE_ERASED", says: /so far\): device d1 was not erased: EIO/, nextTryAtMs: 900, becauseOf: [HOST] }],
  ],
  [
    "an unknown disk may be on it",
    DEVICE,
    { device: { unknownSession: { sessionNumber: 8, diskId: diskId("lost") } } },
    [
      {
        reason: "HELD_BY_UNKNOWN_DISK",
        says: /session 8 of device d1 for disk lost/,
        commands: ["diskmesh decide-unknown agent d1 --dry-run", "diskmesh decide-unknown registry d1 --dry-run"],
      },
    ],
  ],
  [
    "an unknown disk may be on it, and the registry has a disk there, which its word does not erase",
    DEVICE,
    { disk: {}, device: { unknownSession: { sessionNumber: 8, diskId: diskId("lost") } } },
    [
      {
        reason: "HELD_BY_UNKNOWN_DISK",
        says: /session 8 of device d1 for disk lost/,
        commands: ["diskmesh decide-unknown registry d1 --dry-run", "diskmesh decide-unknown agent d1 --dry-run"],
      },
    ],
  ],
  [
    "its file has shrunk",
    DEVICE,
    { device: { health: "ERROR", healthMessage: "path x has another size than when it was opened" } },
    [{ reason: "UNHEALTHY", says: /another size/, cureCount: 1 }],
  ],
  [
    "it is gone",
    DEVICE,
    { device: { missing: true } },
    [{ reason: "NOT_REPORTED", says: /does not find device d1/, commands: ["diskmesh remove-device h1 d1"] }],
  ],
  [
    "it is gone with data on it, which nothing can erase",
    DEVICE,
    { device: { missing: true, dirty: true } },
    [
      { reason: "TO_BE_ERASED", says: /is erased before/, nextTryAtMs: 900, isRoutine: true, becauseOf: [HOST] },
      {
        reason: "NOT_REPORTED",
        says: /does not find device d1/,
        commands: ["diskmesh remove-device h1 d1 --keep-data"],
      },
    ],
  ],
  [
    "it is gone, and a disk is on it",
    DEVICE,
    { device: { missing: true }, disk: {} },
    [{ reason: "NOT_REPORTED", says: /does not find device d1/ }],
  ],
  [
    "a disk lies on it, and it is to be removed",
    DEVICE,
    { device: { removalRequested: true, removalRequestedAtMs: 450 }, disk: { parts: moving } },
    [
      {
        reason: "REMOVAL_WAITS",
        says: /disk x lies on it$/,
        sinceMs: 450,
        becauseOf: [DISK],
        commands: ["diskmesh add-device h1 d1"],
      },
    ],
  ],
  [
    "a disk lies on it, and it is to be removed, but an operator has cancelled the move",
    DEVICE,
    { device: { removalRequested: true, removalRequestedAtMs: 450 }, disk: {} },
    [
      {
        reason: "REMOVAL_WAITS",
        says: /disk x lies on it, whose move was cancelled/,
        sinceMs: 450,
        becauseOf: [DISK],
        commands: ["diskmesh remove-device h1 d1", "diskmesh add-device h1 d1"],
      },
    ],
  ],
];

const leaving = { removalRequested: true, removalRequestedAtMs: 450 };
const heldBack: readonly ExplainRow[] = [
  [
    "it is to be removed with its host, which is a VM",
    DEVICE,
    { device: leaving, host: { removalRequested: true, assignment: { vmCid: "vm-1", assignedAtMs: 0 } } },
    [
      {
        reason: "REMOVAL_WAITS",
        says: /device d1 is being removed with host h1, and waits for VM vm-1$/,
        sinceMs: 450,
        isRoutine: true,
        becauseOf: [HOST],
        isEcho: true,
        commands: ["diskmesh add-host h1"],
      },
    ],
  ],
  [
    "it is to be removed, whatever becomes of its host, and to be erased before",
    DEVICE,
    {
      device: { ...leaving, leavesAs: "DEVICE", dirty: true },
      host: { removalRequested: true, assignment: { vmCid: "vm-1", assignedAtMs: 0 } },
    },
    [
      { reason: "TO_BE_ERASED", says: /25 % so far/, nextTryAtMs: 900, isRoutine: true, becauseOf: [HOST] },
      {
        reason: "REMOVAL_WAITS",
        says: /device d1 is being removed, and waits for device d1$/,
        sinceMs: 450,
        isRoutine: true,
        commands: ["diskmesh add-host h1"],
      },
    ],
  ],
];
const refusedAdds: readonly ExplainRow[] = (
  [
    [
      "its host is to be removed, too, so AddDevice would be refused",
      { removalRequested: true },
      ["diskmesh add-host h1"],
    ],
    [
      "its host is dead, and the disk is lost, so waiting is no cure",
      { removalRequested: true, lossNoted: true, state: "UNAVAILABLE" },
      [],
    ],
    ["its host is DEAD, so AddHost would be refused", { state: "DEAD" }, []],
  ] as const
).map(([cause, host, commands]) => [
  cause,
  DEVICE,
  { device: leaving, disk: { parts: moving }, host },
  [{ reason: "REMOVAL_WAITS", says: /disk x lies on it/, sinceMs: 450, becauseOf: [DISK], commands }],
]);

describe("the causes of a device", () => testCauses([...rows, ...refusedAdds, ...heldBack]));
