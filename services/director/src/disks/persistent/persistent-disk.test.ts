import { expect } from "chai";
import type { Instance } from "../../store/instance.js";
import type { PersistentDisk, PersistentDiskState } from "../../store/persistent-disk.js";
import {
  copied,
  decidePersistentDisk,
  intendCopy,
  intendPersistentDisk,
  type PersistentDiskStep,
  persistentDiskAdopted,
  persistentDiskChanged,
  persistentDiskOrphaned,
  persistentDisks,
} from "./persistent-disk.js";

const disk = (state: PersistentDiskState): PersistentDisk => ({
  diskId: "d",
  deployment: "web",
  group: "db",
  instanceId: "i",
  az: "z1",
  cpi: "",
  sizeMib: 100,
  cloudProperties: { type: "ssd" },
  state,
  diskCid: "disk-1",
  vmCid: "",
  hint: null,
  orphanedAtMs: null,
});
const AS_IS = { sizeMib: 100, cloudProperties: { type: "ssd" } };
const LARGER = { ...AS_IS, sizeMib: 200 };
const OTHER = { ...AS_IS, cloudProperties: { type: "hdd" } };

describe("persistent disk decisions", () => {
  // Columns: the disk's state, then the next step when the disk is wanted unchanged, larger, of another type, or not at
  // all.
  const ROWS: [PersistentDiskState | "none", string, string, string, string][] = [
    ["none", "create", "create", "create", "nothing"],
    ["creating", "create", "create", "create", "create"],
    ["detached", "attach", "change", "change", "orphan"],
    ["attaching", "attach", "detach", "detach", "detach"],
    ["attached", "mount", "detach", "detach", "detach"],
    ["mounted", "nothing", "detach", "detach", "detach"],
    ["detaching", "detach", "detach", "detach", "detach"],
  ];
  for (const [state, ...effects] of ROWS) {
    for (const [index, wanted] of [AS_IS, LARGER, OTHER, undefined].entries()) {
      it(`${state}, ${["as it is", "larger", "of another type", "none"][index]} -> ${effects[index]}`, () => {
        expect(decidePersistentDisk(state === "none" ? undefined : disk(state), wanted)).to.equal(effects[index]);
      });
    }
  }

  it("a smaller size -> refused", () => {
    expect(() => decidePersistentDisk(disk("mounted"), { ...AS_IS, sizeMib: 50 })).to.throw(
      "the persistent disk of db/i has 100 MiB and cannot shrink to 50 MiB",
    );
  });
});

describe("persistent disk states", () => {
  const ON_VM = { instanceId: "i", vmCid: "vm-1" };
  const PLACE = { ...ON_VM, deployment: "web", group: "db", az: "z1", cpi: "" } as Instance;
  const EVENTS = {
    intend_create: (disk: PersistentDisk) => intendPersistentDisk(disk, "other", PLACE, LARGER),
    create: (disk: PersistentDisk) => persistentDisks.created(disk, { diskCid: "disk-1", cpi: "east" }),
    intend_attach: (disk: PersistentDisk) => persistentDisks.intendAttach(disk, ON_VM, "a"),
    attach: (disk: PersistentDisk) => persistentDisks.attached(disk, "x"),
    fail_attach: (disk: PersistentDisk) => persistentDisks.notAttached(disk),
    mount: (disk: PersistentDisk) => persistentDisks.moved(disk, "mount"),
    intend_detach: (disk: PersistentDisk) => persistentDisks.moved(disk, "intend_detach"),
    detach: (disk: PersistentDisk) => persistentDisks.detached(disk),
    change: (disk: PersistentDisk) => persistentDiskChanged(disk, { ...LARGER, diskCid: "disk-2" }),
    orphan: (disk: PersistentDisk) => persistentDiskOrphaned(disk, 5),
    adopt: (disk: PersistentDisk) => persistentDiskAdopted(disk, { deployment: "web", group: "db", instanceId: "i" }),
  };
  // Written in another form than the table of the code, so that a mistake in either fails the test.
  const EXPECTED: Record<PersistentDiskState, Partial<Record<keyof typeof EVENTS, PersistentDiskState>>> = {
    creating: { intend_create: "creating", create: "detached" },
    detached: { intend_attach: "attaching", change: "detached", orphan: "detached", adopt: "detached" },
    attaching: { intend_attach: "attaching", attach: "attached", fail_attach: "detached", intend_detach: "detaching" },
    attached: { mount: "mounted", intend_detach: "detaching" },
    mounted: { intend_detach: "detaching" },
    detaching: { intend_detach: "detaching", detach: "detached" },
  };
  for (const state of Object.keys(EXPECTED) as PersistentDiskState[]) {
    for (const event of Object.keys(EVENTS) as (keyof typeof EVENTS)[]) {
      const expected = EXPECTED[state][event];
      it(`${state}, ${event} -> ${expected ?? "refused"}`, () => {
        const after = (): PersistentDisk => EVENTS[event](disk(state));
        if (expected === undefined) expect(after).to.throw(`persistent disk \`disk-1\` is ${state}: it cannot`);
        else expect(after().state).to.equal(expected);
      });
    }
  }

  it("every event keeps the disk's instance", () => {
    const attaching = persistentDisks.intendAttach(disk("detached"), ON_VM, "a");
    expect(attaching).to.include({ instanceId: "i", vmCid: "vm-1", hint: null });
    const detached = persistentDisks.detached({ ...disk("detaching"), vmCid: "vm-1", hint: "x" });
    expect(detached).to.include({ instanceId: "i", vmCid: "", hint: null });
    expect(persistentDisks.notAttached(attaching)).to.deep.equal(disk("detached"));
  });

  it("a repeated intent to create -> keeps the first intent; an unwanted disk -> a thrown bug", () => {
    expect(intendPersistentDisk(disk("creating"), "other", PLACE, LARGER)).to.include({ diskId: "d", sizeMib: 100 });
    const anew = intendPersistentDisk(undefined, "d", { ...PLACE, vmCid: "" }, AS_IS);
    expect(anew).to.deep.equal({ ...disk("creating"), diskCid: "" });
    expect(() => intendPersistentDisk(undefined, "d", PLACE, undefined)).to.throw(TypeError);
  });

  it("changed, orphaned -> the CPI's id and the time are recorded", () => {
    expect(persistentDiskChanged(disk("detached"), { ...OTHER, diskCid: "disk-2" })).to.deep.equal({
      ...disk("detached"),
      ...OTHER,
      diskCid: "disk-2",
      realSizeBytes: undefined,
    });
    expect(persistentDiskOrphaned(disk("detached"), 5).orphanedAtMs).to.equal(5);
  });
});

describe("copying a persistent disk to another", () => {
  const instance = { deployment: "d", group: "g", instanceId: "i", az: "z1", cpi: "" } as Instance;
  const as = (sizeMib: number) => ({ sizeMib, cloudProperties: {} });
  const disk = (state: PersistentDiskState): PersistentDisk => {
    const { role, ...plain } = intendCopy(instance, "old", as(64));
    return { ...plain, state, diskCid: "old" };
  };
  const next = (state: PersistentDiskState): PersistentDisk => ({ ...intendCopy(instance, "new", as(128)), state });
  const former = (state: PersistentDiskState): PersistentDisk => ({ ...disk(state), role: "former" });

  /**
   * Columns: the second disk's state, the next step while the copy is wanted, and the next step once the first disk is
   * as wanted.
   */
  const STEPS: [PersistentDiskState, PersistentDiskStep, PersistentDiskStep][] = [
    ["creating", "create_next", "create_next"],
    ["detached", "attach_next", "delete_next"],
    ["attaching", "attach_next", "detach_other"],
    ["attached", "migrate", "detach_other"],
    ["detaching", "detach_other", "detach_other"],
  ];
  for (const [state, whileWanted, otherwise] of STEPS)
    it(`the new disk ${state} -> ${whileWanted}; no longer wanted -> ${otherwise}`, () => {
      expect(decidePersistentDisk(disk("mounted"), as(128), next(state))).to.equal(whileWanted);
      expect(decidePersistentDisk(disk("mounted"), as(64), next(state))).to.equal(otherwise);
      expect(decidePersistentDisk(disk("mounted"), as(256), next(state))).to.equal(otherwise);
      expect(decidePersistentDisk(disk("mounted"), undefined, next(state))).to.equal(otherwise);
    });

  it("the present disk is mounted first", () => {
    expect(decidePersistentDisk(disk("detached"), as(128), next("attached"))).to.equal("attach");
    expect(decidePersistentDisk(disk("attached"), as(128), next("detached"))).to.equal("mount");
  });

  it("the former disk -> detached, then an orphan, whatever is wanted", () => {
    for (const wanted of [as(128), as(256), undefined]) {
      expect(decidePersistentDisk(disk("mounted"), wanted, former("mounted"))).to.equal("detach_other");
      expect(decidePersistentDisk(disk("mounted"), wanted, former("detached"))).to.equal("orphan_former");
    }
  });

  it("copied -> the disks swap their roles", () => {
    const { former, present } = copied(disk("mounted"), { ...next("attached"), diskCid: "new" });
    expect(former).to.deep.equal({ ...disk("mounted"), role: "former" });
    expect(present).to.include({ diskId: "new", state: "mounted" }).and.not.have.property("role");
    expect(persistentDiskOrphaned({ ...former, state: "detached" }, 5)).to.not.have.property("role");
  });
});
