import { restoredBackup } from "@diskmesh/tablet/testing";
import { expect } from "chai";
import { allDevices } from "./model/store/layout.js";
import { holds } from "./model/store/runs.js";
import type { Device, Disk } from "./model/store/schema.js";
import { storedSchema } from "./store/stored-schema.js";

describe("a backup of a disk-registry of 0.1.0", () => {
  it("is restored completely", async () => {
    const { found, expected } = await restoredBackup("registry", storedSchema);
    expect(found).to.have.length.above(0);
    expect(found).to.have.deep.members(expected);
    const of = <Doc>(name: string) => found.flatMap(({ table, document }) => (table === name ? (document as Doc) : []));
    const [devices, disks] = [of<Device>("devices"), of<Disk>("disks")];
    expect(devices.filter(({ runs }) => runs.length > 0)).to.have.length(4);
    for (const disk of disks)
      for (const id of allDevices(disk))
        expect(
          holds(
            devices.find(({ deviceId }) => deviceId === id),
            disk.diskId,
          ),
          id,
        ).to.equal(true);
  });
});
