import { expect } from "chai";
import { dynamicDisks, intendCreateDisk } from "../disks/dynamic/disk.js";
import type { Disk } from "../store/disk.js";
import { leftoverVolumes } from "./leftover-volumes.js";

const HOUR_MS = 3_600_000;

describe("volumes that no node ever had", () => {
  const made = (metadata: object): Disk => {
    const intent = { name: "d", deployment: "web", az: "z1", cpi: "", pool: "p", sizeMib: 1, cloudProperties: {} };
    const creating = intendCreateDisk(undefined, { ...intent, token: "t", incarnation: "i", createdAtMs: 0 });
    return { ...dynamicDisks.created(creating, { diskCid: "disk-t", cpi: "" }), metadata: { ...metadata } };
  };
  const volume = made({ csi_name: "pvc-1" });
  const found = (disk: Disk, hours: number, incarnation = "i") => [
    ...leftoverVolumes([disk], incarnation, hours * HOUR_MS),
  ];

  it("need attention after a day, with their age and the command that deletes them", () => {
    expect(found(volume, 23)).to.deep.equal([]);
    const [first] = found(volume, 24);
    expect(first).to.include({ kind: "disk", name: "d", sinceMs: 0 });
    expect(first?.trouble).to.include("`diskmesh delete d`");
  });

  it("are no disks of others, none that was attached, and none of which a restore forgot that", () => {
    const target = { instanceId: "i-1", vmCid: "vm-1" };
    const attached = dynamicDisks.intendAttach(volume, target, "a-1");
    for (const other of [made({}), attached, { ...volume, first: undefined }, { ...volume, createdAtMs: undefined }])
      expect(found(other, 100)).to.deep.equal([]);
    expect(found(volume, 100, "restored")).to.deep.equal([]);
  });
});
