import { restoredLmdbBackup } from "@diskmesh/tablet/testing";
import { expect } from "chai";
import { countingDevices } from "./model/store/layout.js";
import type { Disk } from "./model/store/schema.js";
import { storedSchema } from "./store/stored-schema.js";

describe("a backup of a disk-registry that stored its state in LMDB", () => {
  it("is restored completely", async () => {
    const { found, expected } = await restoredLmdbBackup("registry", storedSchema);
    expect(found).to.have.length.above(0);
    expect(found).to.have.deep.members(expected);
    const disks = found.flatMap(({ table, document }) => (table === "disks" ? [document as Disk] : []));
    expect(disks.map(countingDevices)).to.deep.equal([["host-1-device-1"]]);
  });
});

describe("a disk that was stored with a flat list of devices", () => {
  it("has a part for each device, and the added devices keep their sessions", () => {
    const publication = { hostId: "h1", sessionNumber: 5 };
    const added = [{ deviceId: "d2", sessionNumber: 7 }];
    const stored = { diskId: "x", deviceIds: ["d1", "d2"], publication: { ...publication, added } };
    const parts = [
      { copies: [{ deviceId: "d1", state: "COUNTS" }] },
      { copies: [{ deviceId: "d2", state: "COUNTS", sessionNumber: 7 }] },
    ];
    expect(storedSchema.disks.upgrade?.(stored, 1)).to.deep.equal({ diskId: "x", parts, publication });
  });
});
