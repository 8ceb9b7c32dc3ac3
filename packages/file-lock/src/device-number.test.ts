import { expect } from "chai";
import { deviceNumber } from "./device-number.js";

describe("device numbers", () => {
  it("follow the encoding of Linux", () => {
    expect(deviceNumber(0x0803n)).to.equal("8:3");
    // 259:70000 is an NVMe partition on a large machine. In a device number, bits 0-7 of the minor are the lowest, then
    // comes the major, then bits 8-19 of the minor.
    expect(deviceNumber(((70_000n & ~0xffn) << 12n) | (259n << 8n) | (70_000n & 0xffn))).to.equal("259:70000");
    expect(deviceNumber(0xfe00n, 16)).to.equal("fe:00");
  });
});
