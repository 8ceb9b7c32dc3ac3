import { expect } from "chai";
import type { Target } from "../../instances/instance.js";
import type { Disk, DiskState } from "../../store/disk.js";
import type { MeantAttachment } from "../../store/task.js";
import {
  ANY_ATTACHMENT,
  type DiskStep,
  decideCreate,
  decideDelete,
  decideDetach,
  decideProvide,
  decideResize,
  type WantedDisk,
} from "./decisions.js";
import { dynamicDisks, intendCreateDisk, isFirstAttachment } from "./disk.js";

const TARGET: Target = {
  instanceId: "i1",
  deployment: "web",
  az: "z1",
  cpi: "",
  vmCid: "vm-1",
  agentId: "host-1",
  stemcellApiVersion: 0,
};
const OTHER: Target = { ...TARGET, instanceId: "i2", vmCid: "vm-2", agentId: "host-2" };
const HOST: Target = {
  ...{ instanceId: "", hostId: "h1", deployment: "", az: "z1", cpi: "" },
  ...{ vmCid: "host/h1", agentId: "", stemcellApiVersion: 0 },
};
const OF_HOSTS = { deployment: "" };
const onHost = (state: DiskState, target = HOST): Disk => ({ ...inState(state, target), ...OF_HOSTS });
const WANTED: WantedDisk = {
  name: "d",
  deployment: "web",
  az: "z1",
  cpi: "",
  made: { pool: "fast", sizeMib: 64 },
  metadata: undefined,
};

function inState(state: DiskState, target = TARGET): Disk {
  const creating = intendCreateDisk(undefined, {
    name: "d",
    deployment: "web",
    az: "z1",
    cpi: "",
    pool: "fast",
    sizeMib: 64,
    cloudProperties: {},
    token: "t",
    incarnation: "i",
    createdAtMs: 1,
  });
  const detached = dynamicDisks.created(creating, { diskCid: "disk-t", cpi: creating.cpi });
  switch (state) {
    case "creating":
      return creating;
    case "detached":
      return detached;
    case "attaching":
      return dynamicDisks.intendAttach(detached, target, "a1");
    case "attached":
      return dynamicDisks.attached(dynamicDisks.intendAttach(detached, target, "a1"), { path: "/run/d.sock" });
    case "detaching":
      return dynamicDisks.moved(
        dynamicDisks.attached(dynamicDisks.intendAttach(detached, target, "a1"), "x"),
        "intend_detach",
      );
    case "deleting":
      return dynamicDisks.moved(detached, "intend_delete");
  }
}

/** Returns the step's name, the result of a `nothing` step, or the error's message. */
function decided(decide: () => DiskStep): string {
  try {
    const step = decide();
    return step.do === "nothing" ? step.result : step.do;
  } catch (error) {
    return `refused: ${(error as Error).message}`;
  }
}

interface Row {
  readonly disk: Disk | undefined;
  readonly cause: string;
  readonly effect: string;
  readonly wanted?: Partial<WantedDisk>;
  readonly target?: Target;
  readonly told?: boolean;
  readonly readOnly?: boolean;
}

const PROVIDE: Row[] = [
  { disk: undefined, cause: "no disk", effect: "create" },
  {
    disk: undefined,
    cause: "no disk, attach alone",
    wanted: { made: undefined },
    effect: "refused: disk `d` not found",
  },
  { disk: inState("creating"), cause: "creation left unfinished", effect: "create" },
  { disk: inState("detached"), cause: "detached", effect: "attach" },
  { disk: inState("attaching"), cause: "attach left unfinished", effect: "attach" },
  { disk: inState("detaching"), cause: "detach left unfinished", effect: "attach" },
  { disk: inState("attached"), cause: "attached, agent perhaps not told", effect: "tell_agent" },
  {
    disk: inState("attached"),
    cause: "attached, agent told",
    told: true,
    effect: "attached disk `d` to `vm-1` in deployment `web`",
  },
  {
    disk: { ...inState("attached"), readOnly: true },
    cause: "attached read-only, agent told",
    readOnly: true,
    told: true,
    effect: "attached disk `d` to `vm-1` in deployment `web`",
  },
  {
    disk: { ...inState("attached"), readOnly: true },
    cause: "attached read-only, wanted writable",
    effect: "refused: disk `d` is attached to vm `vm-1` as read-only, not as writable: detach it first",
  },
  {
    disk: inState("attaching"),
    cause: "attach as writable left unfinished, wanted read-only",
    readOnly: true,
    effect: "refused: disk `d` is being attached to vm `vm-1` as writable, not as read-only: detach it first",
  },
  {
    disk: { ...inState("attached"), hint: null },
    cause: "attached, without a hint",
    effect:
      "attached disk `d` to `vm-1` in deployment `web`; the vm's agent was not notified, because the CPI or the stemcell is of version 1 and gives no disk hint",
  },
  {
    disk: inState("attached"),
    cause: "attached, other metadata",
    wanted: { metadata: { a: "1" } },
    told: true,
    effect: "set_metadata",
  },
  {
    disk: { ...inState("attached"), metadata: { a: { b: 1, c: [2] } } },
    cause: "attached, equal metadata",
    wanted: { metadata: { a: { c: [2], b: 1 } } },
    effect: "tell_agent",
  },
  { disk: { ...inState("attached"), metadata: { a: 1 } }, cause: "attached, no metadata given", effect: "tell_agent" },
  {
    disk: inState("deleting"),
    cause: "deletion left unfinished",
    effect: "refused: disk `d` is being deleted: repeat the deletion until it ends",
  },
  {
    disk: inState("attached", OTHER),
    cause: "attached elsewhere",
    effect: "refused: disk `d` is attached to a different vm `vm-2`: detach it first",
  },
  {
    disk: inState("attaching", OTHER),
    cause: "perhaps attached elsewhere",
    effect: "refused: disk `d` is being attached to a different vm `vm-2`: detach it first",
  },
  {
    disk: inState("detaching", OTHER),
    cause: "perhaps still attached elsewhere",
    effect: "refused: disk `d` is being detached from a different vm `vm-2`: detach it first",
  },
  {
    disk: inState("attached", { ...TARGET, vmCid: "vm-0" }),
    cause: "attached to the instance's former VM",
    effect: "refused: disk `d` is attached to a different vm `vm-0`: detach it first",
  },
  {
    disk: inState("attached"),
    cause: "another size",
    wanted: { made: { pool: "fast", sizeMib: 65 } },
    effect: "refused: disk `d` exists with 64 MiB, but the request has 65 MiB: request the same size",
  },
  {
    disk: inState("detached"),
    cause: "another pool",
    wanted: { made: { pool: "slow", sizeMib: 64 } },
    effect: "refused: disk `d` exists with disk type `fast`, but the request has `slow`: request the same disk type",
  },
  {
    disk: inState("creating"),
    cause: "another size, creation left unfinished",
    wanted: { made: { pool: "fast", sizeMib: 1 } },
    effect: "refused: disk `d` exists with 64 MiB, but the request has 1 MiB: request the same size",
  },
  { disk: inState("detached"), cause: "another size, attach alone", wanted: { made: undefined }, effect: "attach" },
  {
    disk: inState("detached"),
    cause: "another AZ",
    wanted: { az: "z2" },
    effect: "refused: disk `d` is in AZ `z1`, not in AZ `z2`",
  },
  {
    disk: inState("detached"),
    cause: "another CPI",
    wanted: { cpi: "east" },
    effect: "refused: disk `d` uses CPI (default), not CPI `east`",
  },
  {
    disk: inState("detached"),
    cause: "another deployment",
    wanted: { deployment: "ci" },
    effect: "refused: disk `d` belongs to deployment `web`, not to deployment `ci`",
  },
  {
    disk: inState("detached"),
    cause: "a deployment's, wanted on a host",
    wanted: OF_HOSTS,
    target: HOST,
    effect:
      "refused: disk `d` belongs to deployment `web`: give an instance of it instead of a host, or provide a disk of another name",
  },
  {
    disk: onHost("detached"),
    cause: "of hosts, wanted on an instance",
    effect: "refused: disk `d` was made for a host, and belongs to no deployment: give a host instead of an instance",
  },
  { disk: onHost("detached"), cause: "of hosts, detached", wanted: OF_HOSTS, target: HOST, effect: "attach" },
  {
    disk: onHost("attached"),
    cause: "attached to the host",
    wanted: OF_HOSTS,
    target: HOST,
    effect: "attached disk `d` to host `h1` at /run/d.sock",
  },
  {
    disk: onHost("attached"),
    cause: "attached to another host",
    wanted: OF_HOSTS,
    target: { ...HOST, hostId: "h2", vmCid: "host/h2" },
    effect: "refused: disk `d` is attached to a different host `h1`: detach it first",
  },
  {
    disk: onHost("attached"),
    cause: "attached to a host, wanted on an instance of the same id and CID",
    wanted: OF_HOSTS,
    target: { ...TARGET, instanceId: "h1", vmCid: "host/h1" },
    effect: "refused: disk `d` is attached to a different host `h1`: detach it first",
  },
];

it("only the disk's first attachment since its creation in the present incarnation counts as the first", () => {
  const attached = inState("attached");
  expect(isFirstAttachment(attached, "i")).to.equal(true);
  expect(isFirstAttachment(attached, "restored"), "a backup may lack later attachments").to.equal(false);
  expect(isFirstAttachment({ ...attached, first: undefined }, "i"), "of 0.1.0").to.equal(false);
  const detached = dynamicDisks.detached(inState("detaching"));
  expect(isFirstAttachment(detached, "i")).to.equal(false);
  expect(isFirstAttachment(dynamicDisks.intendAttach(detached, TARGET, "a2"), "i")).to.equal(false);
  const again = dynamicDisks.intendAttach(inState("attaching"), TARGET, "a2");
  expect(isFirstAttachment(again, "i"), "the former try may have attached the disk").to.equal(false);
});

describe("disk decisions", () => {
  for (const row of PROVIDE) {
    it(`provide: ${row.cause} -> ${row.effect}`, () => {
      const decide = (): DiskStep =>
        decideProvide(
          row.disk,
          { ...WANTED, ...row.wanted },
          { ...(row.target ?? TARGET), readOnly: row.readOnly ?? false },
          { agentNotified: row.told ?? false },
        );
      expect(decided(decide)).to.equal(row.effect);
    });
  }

  const DETACH: [DiskState | undefined, string][] = [
    [undefined, "refused: disk `d` not found"],
    ["creating", "disk `d` was already detached"],
    ["detached", "disk `disk-t` was already detached"],
    ["deleting", "disk `disk-t` was already detached"],
    ["attaching", "detach"],
    ["attached", "detach"],
    ["detaching", "detach"],
  ];
  for (const [state, effect] of DETACH) {
    it(`detach: ${state ?? "no disk"} -> ${effect}`, () => {
      expect(decided(() => decideDetach(state && inState(state), "d", ANY_ATTACHMENT))).to.equal(effect);
    });
  }

  const DELETE: [DiskState | undefined, string, string][] = [
    [undefined, "", "disk with name `d` was already deleted"],
    [undefined, "disk-t", "deleted disk `disk-t`"],
    ["creating", "", "create"],
    ["detached", "", "delete"],
    ["deleting", "", "delete"],
    ["attaching", "", "refused: disk `d` is being attached to vm `vm-1`: detach it first"],
    ["attached", "", "refused: disk `d` is attached to vm `vm-1`: detach it first"],
    ["detaching", "", "refused: disk `d` is being detached from vm `vm-1`: detach it first"],
  ];
  for (const [state, deletedCid, effect] of DELETE) {
    it(`delete: ${state ?? "no disk"}${deletedCid ? ", by this task" : ""} -> ${effect}`, () => {
      expect(decided(() => decideDelete(state && inState(state), "d", ANY_ATTACHMENT, { deletedCid }))).to.equal(
        effect,
      );
    });
  }

  const formerly = { ...inState("detached"), attachmentId: "a1" };
  const left = (now: string, by: string) => `disk \`d\` is ${now} ${by}: nothing was changed`;
  const elsewhere = "attached to vm `vm-1`, but not";
  const before = "detached, and was not last attached";
  const elsewhereOnHost = "attached to host `h1`, but not";
  const MEANT: ["detach" | "delete", Disk, Partial<MeantAttachment>, string][] = [
    ["detach", onHost("attached"), {}, "detach"],
    ["detach", onHost("attached"), { hostId: "h1" }, "detach"],
    ["detach", onHost("attached"), { hostId: "h2" }, left(elsewhereOnHost, "for host `h2`")],
    ["detach", onHost("attached"), { instanceId: "h1" }, left(elsewhereOnHost, "for instance `h1`")],
    [
      "detach",
      onHost("attached"),
      { hostId: "h1", attachmentId: "a0" },
      left(elsewhereOnHost, "by attachment `a0` for host `h1`"),
    ],
    ["detach", inState("attached"), { hostId: "i1" }, left(elsewhere, "for host `i1`")],
    ["delete", onHost("attached"), { instanceId: "h1" }, left(elsewhereOnHost, "for instance `h1`")],
    ["delete", onHost("detached"), { hostId: "h2" }, "delete"],
    ["detach", inState("attached"), { attachmentId: "a1" }, "detach"],
    ["detach", inState("attached"), { instanceId: "i1" }, "detach"],
    ["detach", inState("detaching"), { instanceId: "i1", attachmentId: "a1" }, "detach"],
    ["detach", inState("attached"), { attachmentId: "a0" }, left(elsewhere, "by attachment `a0`")],
    ["detach", inState("attached"), { instanceId: "i2" }, left(elsewhere, "for instance `i2`")],
    [
      "detach",
      inState("attaching"),
      { instanceId: "i1", attachmentId: "a0" },
      left(`being ${elsewhere}`, "by attachment `a0` for instance `i1`"),
    ],
    ["detach", formerly, { attachmentId: "a0" }, "disk `disk-t` was already detached"],
    ["delete", formerly, { attachmentId: "a1", instanceId: "i1" }, "delete"],
    ["delete", formerly, { attachmentId: "a0" }, left(before, "by attachment `a0`")],
    ["delete", inState("detached"), { attachmentId: "a1" }, left(before, "by attachment `a1`")],
    ["delete", inState("attached"), { attachmentId: "a0" }, left(elsewhere, "by attachment `a0`")],
    ["delete", inState("attached"), { instanceId: "i2" }, left(elsewhere, "for instance `i2`")],
    [
      "delete",
      inState("attached"),
      { attachmentId: "a1" },
      "refused: disk `d` is attached to vm `vm-1`: detach it first",
    ],
  ];
  for (const [what, disk, meant, effect] of MEANT) {
    it(`${what}: ${disk.state}, by ${JSON.stringify(meant)} -> ${effect}`, () => {
      const named = { ...ANY_ATTACHMENT, ...meant };
      const decide = () =>
        what === "detach" ? decideDetach(disk, "d", named) : decideDelete(disk, "d", named, { deletedCid: "" });
      expect(decided(decide)).to.equal(effect);
    });
  }

  const RESIZE: [DiskState | undefined, number, string][] = [
    [undefined, 65, "refused: disk `d` not found"],
    ["creating", 65, "refused: disk `d` is being created: repeat the creation until it ends"],
    ["deleting", 65, "refused: disk `d` is being deleted: repeat the deletion until it ends"],
    ["detached", 65, "resize"],
    ["attaching", 65, "resize"],
    ["attached", 65, "resize"],
    ["detaching", 65, "resize"],
    ["attached", 64, "large enough"],
    ["attached", 63, "refused: disk `d` has 64 MiB and cannot shrink to 63 MiB: request at least its size"],
  ];
  for (const [state, sizeMib, effect] of RESIZE) {
    it(`resize: ${state ?? "no disk"} to ${sizeMib} MiB -> ${effect}`, () => {
      const decide = (): DiskStep => {
        const isDue = decideResize(state && inState(state), "d", sizeMib);
        return { do: "nothing", result: isDue ? "resize" : "large enough" };
      };
      expect(decided(decide)).to.equal(effect);
    });
  }

  const CREATE: [DiskState | undefined, Partial<WantedDisk>, string][] = [
    [undefined, {}, "create"],
    ["creating", {}, "create"],
    ["detached", {}, "created disk `d` in deployment `web`"],
    ["attached", {}, "created disk `d` in deployment `web`"],
    ["detached", { metadata: { a: 1 } }, "set_metadata"],
    ["deleting", {}, "refused: disk `d` is being deleted: repeat the deletion until it ends"],
    [
      "detached",
      { made: { pool: "fast", sizeMib: 65 } },
      "refused: disk `d` exists with 64 MiB, but the request has 65 MiB: request the same size",
    ],
    ["detached", { az: "z2" }, "refused: disk `d` is in AZ `z1`, not in AZ `z2`"],
  ];
  for (const [state, wanted, effect] of CREATE) {
    it(`create: ${state ?? "no disk"} ${JSON.stringify(wanted)} -> ${effect}`, () => {
      expect(decided(() => decideCreate(state && inState(state), { ...WANTED, ...wanted }))).to.equal(effect);
    });
  }
});

describe("disk states", () => {
  const EVENTS = {
    intend_create: (disk: Disk) =>
      intendCreateDisk(disk, { ...disk, token: "other", incarnation: "i", createdAtMs: 2 }),
    create: (disk: Disk) => dynamicDisks.created(disk, { diskCid: "disk-t", cpi: disk.cpi }),
    intend_attach: (disk: Disk) => dynamicDisks.intendAttach(disk, TARGET, "a2"),
    attach: (disk: Disk) => dynamicDisks.attached(disk, "x"),
    intend_detach: (disk: Disk) => dynamicDisks.moved(disk, "intend_detach"),
    fail_attach: (disk: Disk) => dynamicDisks.notAttached(disk),
    detach: (disk: Disk) => dynamicDisks.detached(disk),
    intend_delete: (disk: Disk) => dynamicDisks.moved(disk, "intend_delete"),
  };
  const EXPECTED: Record<DiskState, Partial<Record<keyof typeof EVENTS, DiskState>>> = {
    creating: { intend_create: "creating", create: "detached" },
    detached: { intend_attach: "attaching", intend_delete: "deleting" },
    attaching: { intend_attach: "attaching", attach: "attached", fail_attach: "detached", intend_detach: "detaching" },
    attached: { intend_detach: "detaching" },
    detaching: { intend_attach: "attaching", intend_detach: "detaching", detach: "detached" },
    deleting: { intend_delete: "deleting" },
  };
  for (const state of Object.keys(EXPECTED) as DiskState[]) {
    for (const event of Object.keys(EVENTS) as (keyof typeof EVENTS)[]) {
      const expected = EXPECTED[state][event];
      it(`${state}, ${event} -> ${expected ?? "refused"}`, () => {
        if (expected === undefined) expect(() => EVENTS[event](inState(state))).to.throw(`disk \`d\` is ${state}`);
        else expect(EVENTS[event](inState(state)).state).to.equal(expected);
      });
    }
  }

  it("a repeated intent to create -> keeps the first token", () => {
    expect(
      intendCreateDisk(inState("creating"), {
        ...inState("creating"),
        token: "other",
        incarnation: "i",
        createdAtMs: 2,
      }).token,
    ).to.equal("t");
  });

  it("detached -> only the id of the last attachment remains", () => {
    const detached = dynamicDisks.detached({ ...inState("detaching"), readOnly: true });
    expect(detached).to.include({ instanceId: "", vmCid: "", hint: null, attachmentId: "a1", readOnly: false });
    expect(dynamicDisks.detached(onHost("detaching"))).to.include({ hostId: undefined, vmCid: "", hint: null });
  });

  for (const state of ["detached", "attaching", "detaching"] as const)
    it(`${state}, intent to attach -> a new attachment id`, () => {
      expect(dynamicDisks.intendAttach(inState(state), TARGET, "a2").attachmentId).to.equal("a2");
    });
});
