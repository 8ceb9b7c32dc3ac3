import {
  DEVICE,
  DISK,
  type ExplainRow,
  HOST,
  h1,
  h2,
  OTHER_HOST,
  published,
  refusedAt,
  registrationRefused,
  suspects,
  testCauses,
  VM,
  word,
} from "../../testing/causes.js";
import { deviceId, hostId } from "../../testing/fleet-fixture.js";

const claimsOther: ExplainRow[2]["known"] = {
  refusedRegistrationOf: () => ({
    ...{ address: "unknown", message: "why it is refused", sinceMs: 550, lastAtMs: 600 },
    claimsOther: true,
  }),
};
const lacks = {
  missingNeedsOf: () => [
    { need: "nats", why: "no user", sinceMs: 700 },
    { need: "clock", why: "the clock shows X", sinceMs: 800 },
  ],
};

const rows: readonly ExplainRow[] = [
  ["all is well", HOST, {}, []],
  [
    "an operator said DEAD",
    HOST,
    { host: { state: "DEAD", saidDead: word } },
    [
      {
        reason: "SAID_DEAD",
        says: /operator ada \(no power\) marked host h1 as dead/,
        sinceMs: 300,
        commands: ["diskmesh set-host-state online h1", "diskmesh fence-host h1 --reason WHY"],
      },
    ],
  ],
  [
    "its agent is silent",
    HOST,
    { host: { state: "UNAVAILABLE", stateMessage: "host h1 is UNAVAILABLE: why" } },
    [
      {
        reason: "AGENT_SILENT",
        says: /^the agent of host h1 is silent: host h1 is UNAVAILABLE: why$/,
        sinceMs: 500,
        commands: ["diskmesh fence-host h1 --reason WHY", "diskmesh set-host-state dead h1 --reason WHY"],
      },
    ],
  ],
  [
    "its agent lacks NATS, and its clock is wrong",
    HOST,
    { known: lacks },
    [
      { reason: "AGENT_LACKS", says: /^the agent of host h1 runs, but lacks nats: no user$/, sinceMs: 700 },
      { reason: "AGENT_LACKS", says: /runs, but the clock shows X$/, sinceMs: 800 },
    ],
  ],
  [
    "its agent warns of its memory",
    HOST,
    { known: { missingNeedsOf: () => [{ need: "memory", why: "it is short", sinceMs: 900, isAlert: true }] } },
    [{ reason: "AGENT_WARNS", says: /^the agent of host h1 warns: it is short$/, sinceMs: 900, cureCount: 1 }],
  ],
  [
    "its drivers have failed",
    HOST,
    { known: { missingNeedsOf: () => [{ need: "drivers", why: "driver /opt/d has failed: no file", sinceMs: 900 }] } },
    [
      {
        reason: "DRIVER_FAILED",
        says: /^the agent of host h1 runs, but driver \/opt\/d has failed: no file$/,
        sinceMs: 900,
      },
    ],
  ],
  [
    "its agent is silent, and lacked NATS before",
    HOST,
    { known: { ...lacks, ...suspects } },
    [{ reason: "HEARTBEATS_MISSED", says: /suspected/, sinceMs: 500 }],
  ],
  [
    "heartbeats are missed",
    HOST,
    { known: suspects },
    [{ reason: "HEARTBEATS_MISSED", says: /suspected/, sinceMs: 500 }],
  ],
  [
    "it is silent, and somebody was refused in its name since",
    HOST,
    { host: { state: "UNAVAILABLE" }, known: refusedAt(600) },
    [
      {
        reason: "AGENT_REFUSED",
        says: /the agent of host h1 is silent, and a client at ADDRESS is refused: why/,
        sinceMs: 550,
      },
      {
        reason: "AGENT_SILENT",
        says: /is silent/,
        sinceMs: 500,
        commands: ["diskmesh fence-host h1 --reason WHY", "diskmesh set-host-state dead h1 --reason WHY"],
      },
    ],
  ],
  [
    "heartbeats are missed, and somebody was refused in its name since",
    HOST,
    { known: { ...suspects, ...refusedAt(600) } },
    [
      { reason: "AGENT_REFUSED", says: /is refused/, sinceMs: 550 },
      { reason: "HEARTBEATS_MISSED", says: /suspected/, sinceMs: 500 },
    ],
  ],
  [
    "somebody was refused in its name before it was heard last",
    HOST,
    { known: { ...suspects, ...refusedAt(500) } },
    [{ reason: "HEARTBEATS_MISSED", says: /suspected/, sinceMs: 500 }],
  ],
  ["it is heard, and a stranger was refused in its name", HOST, { known: refusedAt(600) }, []],
  [
    "it is said to be dead, and somebody was refused in its name",
    HOST,
    { host: { state: "DEAD", saidDead: word }, known: refusedAt(600) },
    [
      {
        reason: "SAID_DEAD",
        says: /as dead/,
        sinceMs: 300,
        commands: ["diskmesh set-host-state online h1", "diskmesh fence-host h1 --reason WHY"],
      },
    ],
  ],
  [
    "it was never heard, and somebody is refused in its name",
    { kind: "HOST", name: hostId("h9") },
    {
      known: {
        lastHeardAtMs: () => undefined,
        refusalOf: () => ({ message: "a client is refused", sinceMs: 550, lastAtMs: 600 }),
      },
    },
    [{ reason: "AGENT_REFUSED", says: /agent of host h9 is silent, and a client/, sinceMs: 550 }],
  ],
  [
    "it is heard, and a registration of another agent with its id is refused",
    HOST,
    { known: registrationRefused },
    [{ reason: "REGISTRATION_REFUSED", says: /why it is refused/, sinceMs: 550 }],
  ],
  ["it is heard, and an agent with its certificate says that it is another host", HOST, { known: claimsOther }, []],
  [
    "it was heard after an agent with its certificate said that it is another host, and is silent",
    HOST,
    { host: { state: "UNAVAILABLE" }, known: { ...claimsOther, lastHeardAtMs: () => 700 } },
    [
      {
        reason: "AGENT_SILENT",
        says: /is silent/,
        sinceMs: 700,
        commands: ["diskmesh fence-host h1 --reason WHY", "diskmesh set-host-state dead h1 --reason WHY"],
      },
    ],
  ],
  [
    "it is silent, and its agent says that it is another host",
    HOST,
    { host: { state: "UNAVAILABLE" }, known: claimsOther },
    [
      { reason: "REGISTRATION_REFUSED", says: /why it is refused/, sinceMs: 550, cureCount: 1 },
      { reason: "AGENT_SILENT", says: /is silent/, sinceMs: 500, cureCount: 0 },
    ],
  ],
  [
    "it is silent, and its registration is refused: it is not to be fenced, nor called dead",
    HOST,
    { host: { state: "UNAVAILABLE" }, known: registrationRefused },
    [
      { reason: "REGISTRATION_REFUSED", says: /why it is refused/, sinceMs: 550 },
      { reason: "AGENT_SILENT", says: /is silent/, sinceMs: 500 },
    ],
  ],
  [
    "it is said to be dead, and its registration is refused",
    HOST,
    { host: { state: "DEAD", saidDead: word }, known: registrationRefused },
    [
      { reason: "REGISTRATION_REFUSED", says: /why it is refused/, sinceMs: 550 },
      { reason: "SAID_DEAD", says: /as dead/, sinceMs: 300, commands: ["diskmesh set-host-state online h1"] },
    ],
  ],
  [
    "it has never registered, and its registration is refused",
    HOST,
    { host: { hostId: hostId("h0") }, known: registrationRefused },
    [{ reason: "REGISTRATION_REFUSED", says: /why it is refused/, sinceMs: 550 }],
  ],
  [
    "most hosts are silent",
    HOST,
    { known: suspects, isMass: true },
    [
      {
        reason: "MASS_SILENCE",
        says: /so are most other hosts/,
        sinceMs: 500,
        commands: ["diskmesh set-host-state dead h1 --reason WHY"],
      },
    ],
  ],
  [
    "it came back",
    HOST,
    { host: { state: "WARNING", probationEndsAtMs: 800, stateChangedAtMs: 700 } },
    [{ reason: "ON_PROBATION", says: /is back/, sinceMs: 700, nextTryAtMs: 800 }],
  ],
  [
    "its agent cannot write",
    HOST,
    { host: { state: "WARNING", agentWarning: "its agent cannot accept orders: disk full" } },
    [{ reason: "AGENT_TAKES_NOTHING_NEW", says: /disk full/ }],
  ],
  ["it must register", HOST, { host: { mustRegister: true } }, [{ reason: "MUST_REGISTER", says: /registered again/ }]],
  [
    "another registry leads",
    HOST,
    { known: { standsStill: () => "another registry leads this fleet" } },
    [{ reason: "STANDS_STILL", says: /another registry leads/ }],
  ],
  [
    "ids of other hosts' devices",
    HOST,
    { host: { foreignDevices: [{ deviceId: deviceId("d9"), hostId: h2 }] } },
    [{ reason: "FOREIGN_DEVICES", says: /d9 is the id of a device of host h2/, becauseOf: [OTHER_HOST] }],
  ],
  [
    "to be removed with a disk on it",
    HOST,
    { host: { removalRequested: true }, disk: {} },
    [
      {
        reason: "REMOVAL_WAITS",
        says: /being removed: 1 device is not out of operation/,
        becauseOf: [DEVICE],
        commands: ["diskmesh remove-host h1 --wait", "diskmesh add-host h1"],
      },
    ],
  ],
  [
    "to be removed while it is a VM: its free devices wait for nothing else",
    HOST,
    { host: { removalRequested: true, assignment: { vmCid: "vm-1", assignedAtMs: 0 } } },
    [
      {
        reason: "REMOVAL_WAITS",
        says: /: 1 device is not out of operation, it is VM vm-1$/,
        becauseOf: [VM],
        commands: ["diskmesh remove-host h1 --wait", "diskmesh add-host h1"],
      },
    ],
  ],
  [
    "to be removed, and its disks are lost",
    HOST,
    { host: { removalRequested: true, state: "DEAD", lossNoted: true }, disk: {} },
    [
      {
        reason: "SAID_DEAD",
        says: /as dead/,
        sinceMs: 0,
        commands: ["diskmesh set-host-state online h1", "diskmesh fence-host h1 --reason WHY"],
      },
      {
        reason: "REMOVAL_WAITS",
        says: /, it has lost 1 disk: x \(1 of 1 parts, on d1; unpublished\)$/,
        becauseOf: [DEVICE],
        commands: ["diskmesh purge-host h1 --force"],
      },
    ],
  ],
  [
    "to be removed while it is a VM and serves a disk",
    HOST,
    {
      host: { removalRequested: true, assignment: { vmCid: "vm-1", assignedAtMs: 0 } },
      device: { attachState: "DETACHED", detachConfirmed: true, hostId: h2 },
      disk: { publication: published("PUBLISHED", { hostId: h1 }) },
    },
    [
      {
        reason: "REMOVAL_WAITS",
        says: /: it serves 1 disk \(x\), it is VM vm-1$/,
        becauseOf: [DISK, VM],
        commands: ["diskmesh remove-host h1 --wait", "diskmesh add-host h1"],
      },
    ],
  ],
  [
    "an operator cordoned it: known, and no trouble",
    HOST,
    { host: { cordoned: { by: "operator ada", atMs: 700, reason: "new firmware" } } },
    [
      {
        reason: "CORDONED",
        says: /^operator ada \(new firmware\) cordoned host h1: it gets no new disk and no new VM$/,
        sinceMs: 700,
        isRoutine: true,
        commands: ["diskmesh set-host-state online h1"],
      },
    ],
  ],
  [
    "it is in maintenance and silent, and its agent lacks nothing else",
    HOST,
    { host: { maintenance: { by: "operator ada", atMs: 700, reason: "memory", untilMs: 9_000 } }, known: suspects },
    [
      { reason: "HEARTBEATS_MISSED", says: /suspected/, sinceMs: 500, isRoutine: true },
      {
        reason: "IN_MAINTENANCE",
        says: /^operator ada \(memory\) has host h1 in maintenance until it is back, or the time is over: /,
        sinceMs: 700,
        nextTryAtMs: 9_000,
        isRoutine: true,
        commands: ["diskmesh set-host-state online h1"],
      },
    ],
  ],
  [
    "it is in maintenance, and its agent takes nothing new: that is no part of the announced work",
    HOST,
    {
      host: {
        maintenance: { by: "operator ada", atMs: 700, reason: "memory", untilMs: 9_000 },
        agentWarning: "its folder is full",
      },
    },
    [
      { reason: "AGENT_TAKES_NOTHING_NEW", says: /folder is full/ },
      {
        reason: "IN_MAINTENANCE",
        says: /in maintenance/,
        sinceMs: 700,
        nextTryAtMs: 9_000,
        isRoutine: true,
        commands: ["diskmesh set-host-state online h1"],
      },
    ],
  ],
  [
    "its agent was stopped once it was out of operation",
    HOST,
    {
      host: { state: "UNAVAILABLE", removalRequested: true },
      device: { attachState: "DETACHED", detachConfirmed: true },
    },
    [
      {
        reason: "AGENT_SILENT",
        says: /is silent/,
        sinceMs: 500,
        isRoutine: true,
        commands: ["diskmesh fence-host h1 --reason WHY", "diskmesh set-host-state dead h1 --reason WHY"],
      },
    ],
  ],
];

describe("the causes of a host", () => testCauses(rows));
