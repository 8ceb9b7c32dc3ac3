import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { ExportSpec } from "../model/memory.js";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";
import { ExportTable } from "./export-table.js";

const SIZE_BYTES = 8_192;

describe("the table of exports", () => {
  it("an export that is remembered and not served -> told as about to be, until it is ended", async () => {
    const fixture = new DeviceFixture([{ id: "a", file: "a" }]);
    makeDeviceFile(fixture.folder, "a", SIZE_BYTES);
    const exports = new ExportTable({
      folder: fixture.folder,
      ledger: fixture.ledger,
      devices: fixture.devices,
      openRemotePart: () => {
        throw new Error("the disk has no part on another host");
      },
      limits: {
        maxConnections: 1,
        maxInFlightRequests: 1,
        maxInFlightBytes: SIZE_BYTES,
        negotiationTimeoutMs: 1_000,
        drainTimeoutMs: 1_000,
        maxEndedExports: 10,
      },
      log: silentLogger,
    });
    const diskId = "disk-1" as DiskId;
    const extent = { hostId: "host-1" as HostId, address: "", deviceId: "a" as DeviceId, sizeBytes: SIZE_BYTES };
    const spec: ExportSpec = { diskId, sessionNumber: 7, blockSizeBytes: 4_096, extents: [extent] };
    exports.intend(spec);
    expect(exports.list()).to.deep.equal([{ diskId, sessionNumber: 7 }]);
    // No session was opened on the device.
    await rejection(exports.serve(spec));
    expect(exports.list()).to.deep.equal([{ diskId, sessionNumber: 7 }]);
    await exports.end(diskId, 6);
    expect(exports.list()).to.deep.equal([{ diskId, sessionNumber: 7 }]);
    await exports.end(diskId, 8);
    expect(exports.list()).to.deep.equal([]);
    await exports.close();
  });
});
