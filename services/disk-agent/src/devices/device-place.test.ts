import type { DeviceId } from "@diskmesh/domain";
import { expect } from "chai";
import type { FileFacts } from "../files/open-file.js";
import { type DeviceConfig, whyUnfit } from "./device-place.js";

const MIB = 1024 * 1024;

const config: DeviceConfig = {
  deviceId: "d1" as DeviceId,
  path: "/dev/d1",
  offsetBytes: MIB,
  blockSizeBytes: 4096,
  serialNumber: "",
  pool: "",
};
const facts: FileFacts = { sizeBytes: 9 * MIB, serialNumber: "", identity: "boot file 8:77:5" };
const recorded = {
  offsetBytes: MIB,
  sizeBytes: 8 * MIB,
  blockSizeBytes: 4096,
  serialNumber: "",
  fileIdentity: "boot file 8:77:5",
};
const drive = { ...facts, identity: "boot block 8:16:3" };

interface Row {
  readonly recorded?: Partial<typeof recorded> | "nothing";
  readonly config?: Partial<DeviceConfig>;
  readonly facts?: Partial<FileFacts>;
  readonly why: RegExp | "fit";
}

const rows: Record<string, Row> = {
  "as it was recorded": { why: "fit" },
  "another path": { config: { path: "/dev/elsewhere" }, why: "fit" },
  grown: { facts: { sizeBytes: 10 * MIB }, why: "fit" },
  "nothing recorded": { recorded: "nothing", why: "fit" },
  "nothing of the file recorded": { recorded: { sizeBytes: 0, fileIdentity: "" }, facts: drive, why: "fit" },
  "the file after a boot": { facts: { identity: "another file 9:77:5" }, why: "fit" },
  "another offset": { config: { offsetBytes: 0 }, why: /offset_bytes was 1048576, is 0/ },
  "another block size": { config: { blockSizeBytes: 512 }, why: /block_size_bytes was 4096, is 512/ },
  shrunk: { facts: { sizeBytes: 8 * MIB }, why: /its size was 8 MiB, is 7 MiB/ },
  "shrunk to nothing": { facts: { sizeBytes: MIB }, why: /too short/ },
  "another file": { facts: { identity: "boot file 8:78:6" }, why: /it was "boot file 8:77:5"/ },
  "another file after a boot": { facts: { identity: "another file 8:78:6" }, why: /it was "boot file 8:77:5"/ },
  "a drive without a serial number after a boot": {
    recorded: { fileIdentity: "former block 8:16:3" },
    facts: drive,
    why: /cannot be identified as the same/,
  },
  "the number that QEMU gives a place after a boot": {
    recorded: { serialNumber: "QM00001", fileIdentity: "former block 8:16:3" },
    facts: { ...drive, serialNumber: "QM00001" },
    why: /the file or drive cannot be identified as the same/,
  },
  "the same, with a serial number in the config": {
    recorded: { fileIdentity: "former block 8:16:3" },
    config: { serialNumber: "s1" },
    facts: drive,
    why: /cannot be identified as the same/,
  },
  "another file with a serial number in the config": {
    recorded: { serialNumber: "s1" },
    config: { serialNumber: "s1" },
    facts: { identity: "boot file 8:78:6" },
    why: /it was "boot file 8:77:5"/,
  },
  "a drive with the recorded serial number in another slot": {
    recorded: { serialNumber: "s1", fileIdentity: "former block 8:16:3" },
    facts: { serialNumber: "s1", identity: "boot block 8:32:1" },
    why: "fit",
  },
  "a serial number that contradicts the config": {
    config: { serialNumber: "s1" },
    facts: { serialNumber: "t1" },
    why: /has serial number "t1", but "s1" is configured/,
  },
};

describe("the bytes of a device", () => {
  for (const [cause, row] of Object.entries(rows))
    it(`${cause} -> ${row.why === "fit" ? "held" : "device changed"}`, () => {
      const known = row.recorded === "nothing" ? undefined : { ...recorded, ...row.recorded };
      const unfit = whyUnfit({ ...facts, ...row.facts }, { ...config, ...row.config }, known);
      if (row.why === "fit") expect(unfit).to.equal(undefined);
      else {
        expect(unfit?.outcome).to.equal("device_changed");
        expect(unfit?.message).to.match(row.why);
      }
    });
});
