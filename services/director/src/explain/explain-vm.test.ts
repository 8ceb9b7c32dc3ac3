import { expect } from "chai";
import { newInstance } from "../instances/instance.js";
import type { ShownLock } from "../locks/locks.js";
import type { CpiCall } from "../store/cpi-call.js";
import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { OwedRemoval } from "../store/owed-removal.js";
import { known as knownOf } from "../testing/known.js";
import type { Known, KnownVm } from "./cause.js";
import { diskCauses, vmCauses } from "./explain-vm.js";

const place = { instanceId: "i1", deployment: "web", group: "db", index: 0, az: "z1" };
const vm = (fields: Partial<Instance> = {}, known: Partial<KnownVm> = {}): KnownVm => ({
  instance: { ...newInstance(place), vmState: "running", vmCid: "vm-1", agentId: "a1", ...fields },
  isNatsAway: false,
  silentSinceMs: undefined,
  remedy: "",
  isShutOut: false,
  owedRemovals: [],
  disks: [],
  hostIds: [],
  isNowhere: false,
  ...known,
});
const disk = (fields: Partial<Disk>): Disk => ({ name: "d1", diskCid: "cid-1", instanceId: "i1", ...fields }) as Disk;
const known = (locks: readonly ShownLock[] = []): Known => knownOf({ locks });
const held = (type: "instance" | "disk", resource: string, taskId = 7): ShownLock => ({
  ...{ type, resource, taskId, what: taskId === 0 ? "a call of ann" : "", waitingTaskIds: [] },
  ...{ sinceMs: 800, deadlineAtMs: 900 },
});
const owed = (diskName: string, sinceMs: number): OwedRemoval => ({
  ...{ agentId: "a1", attachmentId: "x", diskName, diskCid: "cid", instanceId: "i1", vmCid: "vm-1", sinceMs },
});

describe("explain: causes of a VM's state", () => {
  /** Reasons in parentheses are routine, so they are no trouble. */
  const ROWS: readonly [what: string, vm: KnownVm | undefined, reasons: string, says: RegExp, cure: RegExp][] = [
    ["not known", undefined, "", /^$/, /^$/],
    ["all is well", vm(), "", /^$/, /^$/],
    ["ignored", vm({ ignore: true }), "(IGNORED)", /web\/db\/0 is ignored/, /bosh -d web unignore db\/i1/],
    ["never made", vm({ vmState: "none", vmCid: "" }), "NO_VM", /has no VM/, /bosh -d web cloud-check$/],
    [
      "stopped hard",
      vm({ vmState: "none", state: "detached" }),
      "(STOPPED)",
      /VM deleted, by an operator/,
      /start db\/i1/,
    ],
    ["stopped", vm({ state: "stopped" }), "(STOPPED)", /jobs of web\/db\/0 were stopped/, /start db\/i1/],
    [
      "not made yet, and a task works",
      vm({ vmState: "none", deployment: "busy" }),
      "(NO_VM)",
      /has no VM/,
      /cloud-check/,
    ],
    ["not made, and leaving", vm({ vmState: "none", leaving: true }), "(NO_VM)", /has no VM/, /cloud-check/],
    [
      "made by a task now",
      vm({ vmState: "creating", deployment: "busy" }),
      "(VM_UNSETTLED)",
      /not known/,
      /cloud-check/,
    ],
    ["being made", vm({ vmState: "creating" }), "VM_UNSETTLED", /create_vm may have been called/, /cloud-check/],
    ["being deleted", vm({ vmState: "deleting" }), "VM_UNSETTLED", /VM vm-1 .* is being deleted/, /cloud-check/],
    ["lost", vm({ vmState: "lost" }), "VM_LOST", /its CPI says/, /cloud-check/],
    ["its host purged", vm({}, { isNowhere: true }), "VM_NOWHERE", /host of VM vm-1 .* was purged/, /cloud-check/],
    ["no host of a fleet", vm({ stemcell: "ubuntu/1" }, { isNowhere: true }), "", /^$/, /^$/],
    ["NATS away", vm({}, { isNatsAway: true, silentSinceMs: 5 }), "(NATS_AWAY)", /no connection to NATS/, /status/],
    [
      "its agent silent",
      vm({}, { silentSinceMs: 5, remedy: "not recreated automatically: it is ignored" }),
      "AGENT_SILENT",
      /the agent of web\/db\/0 is silent; its VM is not recreated automatically: it is ignored/,
      /recreate db\/i1/,
    ],
    [
      "its certificate ended",
      vm({}, { isShutOut: true }),
      "CERTIFICATE_ENDED",
      /its certificate has ended/,
      /recreate/,
    ],
    [
      "removals owed",
      vm({}, { owedRemovals: [owed("d1", 5), owed("d2", 4)], hostIds: ["h1"] }),
      "OWES_REMOVALS",
      /the agent of web\/db\/0 was unreachable when disk d1, d2 was detached: the detach notification is pending/,
      /,bosh -d web recreate db\/i1$/,
    ],
    [
      "a disk in between",
      vm({}, { disks: [disk({ state: "attaching" }), disk({ state: "attached" })] }),
      "(DISK_UNSETTLED)",
      /whether cid-1 is attached/,
      /^$/,
    ],
  ];
  for (const [what, about, reasons, says, cure] of ROWS)
    it(`${what} -> ${reasons || "no cause"}`, () => {
      const found = vmCauses(about, knownOf({ isBusy: (deployment) => deployment === "busy" }));
      const shown = found.map(({ reason, isRoutine }) => (isRoutine ? `(${reason})` : reason));
      expect(shown.join()).to.equal(reasons);
      expect(found.map(({ message }) => message).join()).to.match(says);
      expect(found.flatMap(({ cures = [] }) => cures.map(([, command]) => command)).join()).to.match(cure);
    });

  it("a task works on it -> its lock; it is silent -> its host; both are explained further", () => {
    const silent = vm({}, { silentSinceMs: 5, hostIds: ["host-1"] });
    const found = vmCauses(silent, known([held("instance", "i1"), held("instance", "i2")]));
    expect(found.map(({ reason, becauseOf }) => [reason, becauseOf])).to.deep.equal([
      ["LOCKED", [{ kind: "TASK", name: "7" }]],
      ["AGENT_SILENT", [{ kind: "HOST", name: "host-1" }]],
    ]);
    expect(found[1]?.sinceMs).to.equal(5);
  });
});

describe("explain: objects of abandoned calls", () => {
  const call = {
    dispatcher: "d:1",
    method: "attachDisk",
    things: ["diskCid cid-1"],
    sinceMs: 400,
    taskId: 2,
  } as unknown as CpiCall;
  const given: Known = { ...known(), callsAt: (thing) => (/vm-1|cid-1/.test(thing) ? [call] : []) };
  for (const [what, found] of [
    ["VM", vmCauses(vm(), given)],
    ["disk", diskCauses(disk({ state: "attached" }), given)],
  ] as const)
    it(`a ${what} -> the call that may still run, and the remedy`, () => {
      expect(found.map(({ reason, sinceMs }) => [reason, sinceMs])).to.deep.equal([["HELD_UP", 400]]);
      expect(found[0]?.message).to.match(/dispatcher d:1 may still run attachDisk of task 2/);
    });
});

describe("explain: causes of a disk's state at the director", () => {
  const VM = { kind: "VM", name: "i1" };
  const OWNER = { kind: "TASK", name: "7" };
  const ROWS: readonly [what: string, disk: Disk | undefined, locked: boolean, reasons: string, because: object[]][] = [
    ["not known", undefined, false, "", []],
    ["attached", disk({ state: "attached" }), false, "", []],
    ["attached, and at work on", disk({ state: "attached" }), true, "LOCKED", [OWNER]],
    ["attaching", disk({ state: "attaching" }), true, "DISK_UNSETTLED,LOCKED", [VM, OWNER]],
    ["creating", disk({ state: "creating", instanceId: "" }), false, "DISK_UNSETTLED", []],
    ["deleting", disk({ state: "deleting", instanceId: "" }), false, "DISK_UNSETTLED", []],
  ];
  for (const [what, about, isLocked, reasons, because] of ROWS)
    it(`${what} -> ${reasons || "no cause"}`, () => {
      const found = diskCauses(about, known(isLocked ? [held("disk", "d1")] : []));
      expect(found.map(({ reason }) => reason).join()).to.equal(reasons);
      expect(found.flatMap(({ becauseOf = [] }) => becauseOf)).to.deep.equal(because);
      const cures = found.flatMap(({ cures: some = [] }) => some);
      expect(cures.length).to.equal(reasons.startsWith("DISK") && !isLocked ? 1 : 0);
    });
});
