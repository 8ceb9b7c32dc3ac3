import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkConfig } from "@diskmesh/service";
import { skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { configSchema } from "../base/config.js";
import { type DeviceConfig, sizeIn, tooShort } from "./device-place.js";

const TOO_LONG = 2 ** 53;
/** File system with sparse files of any length. */
const TMPFS = "/dev/shm";

describe("a device file of 2^53 bytes", () => {
  it("is in error as one device of all its bytes, and usable as devices of given sizes", () => {
    const whole = { deviceId: "d1", path: "/dev/d1", offsetBytes: 0, blockSizeBytes: 4_096 } as DeviceConfig;
    expect(sizeIn(TOO_LONG, whole)).to.equal(0);
    expect(tooShort(TOO_LONG, whole)).to.match(/too long for device d1: it has 9007199254740992 bytes/);
    expect(sizeIn(TOO_LONG, { ...whole, sizeBytes: 8_192 })).to.equal(8_192);
    expect(sizeIn(TOO_LONG - 1, whole)).to.equal(TOO_LONG - 4_096);
  });

  it("is found by a check of the config", function () {
    skipWithout(this, "truncate");
    const folder = mkdtempSync(join(TMPFS, "dm-long-"));
    try {
      const [path, file] = [join(folder, "long"), join(folder, "agent.yaml")];
      // Node cannot set a length this large.
      execFileSync("truncate", ["--size", `${TOO_LONG}`, path]);
      const devices = [{ deviceId: "whole", path }];
      writeFileSync(file, JSON.stringify({ devices }));
      const found = () => checkConfig(configSchema, file).problems.filter((problem) => problem.startsWith("devices"));
      expect(found()).to.deep.equal([
        `devices.0: ${JSON.stringify(path)} has 9007199254740992 bytes, but a device may have at most 2^53 - 1: give sizeBytes`,
      ]);
      writeFileSync(file, JSON.stringify({ devices: [{ ...devices[0], sizeBytes: 4_096 }] }));
      expect(found()).to.deep.equal([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
