import { expect } from "chai";
import { decidePersistentDisk, type PersistentDisk, type PersistentDiskState } from "./persistent-disk.js";

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
  // What is wanted: the disk as it is; a larger one; one of another type; none.
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

  it("smaller -> refused", () => {
    expect(() => decidePersistentDisk(disk("mounted"), { ...AS_IS, sizeMib: 50 })).to.throw(
      "the persistent disk of db/i has 100 MiB and cannot shrink to 50 MiB",
    );
  });
});
