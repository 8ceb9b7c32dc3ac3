import { expect } from "chai";
import { InvalidArgumentError } from "./errors.js";
import { parseAcceptedIoLimits, parseIoLimits, parseIoLimitsJson, sameIoLimits } from "./io-limits.js";
import { MIB_BYTES } from "./sizes.js";

const none = { readIops: 0, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };

describe("I/O limits", () => {
  it("nothing limited -> undefined, whatever the burst", () => {
    expect(parseIoLimits(undefined)).to.equal(undefined);
    expect(parseIoLimits({ ...none, burstSeconds: 5 })).to.equal(undefined);
    expect(parseIoLimitsJson({})).to.equal(undefined);
  });

  it("JSON names limits in snake_case; an absent limit is 0", () => {
    const [read, write] = [MIB_BYTES, 10 ** 12];
    const json = {
      ...{ read_iops: 1, write_iops: 2, burst_seconds: 5 },
      ...{ read_bytes_per_second: read, write_bytes_per_second: write },
    };
    const all = { readIops: 1, writeIops: 2, readBytesPerSecond: read, writeBytesPerSecond: write, burstSeconds: 5 };
    expect(parseIoLimitsJson(json)).to.deep.equal(all);
    expect(parseIoLimitsJson({ write_iops: 2 })).to.deep.equal({ ...none, writeIops: 2 });
  });

  const malformed: readonly [unknown, string][] = [
    [{ read_iops: -1 }, "limits.read_iops is -1"],
    [{ read_iops: 1.5 }, "limits.read_iops is 1.5"],
    [{ read_iops: 10 ** 12 + 1 }, "to 1000000000000"],
    [{ read_iops: 1, burst_seconds: 3_601 }, "limits.burst_seconds is 3601"],
    [{ write_iops: "5" }, 'limits.write_iops is "5"'],
    [{ read_bytes_per_second: 50 }, "limits.read_bytes_per_second is 50, with which the disk would seem to hang"],
    [{ write_bytes_per_second: MIB_BYTES - 1, burst_seconds: 3_600 }, "give at least 1048576 (1 MiB/s), or 0"],
    [{ iops: 5 }, 'unknown key "iops"'],
    [5, "limits must be an object"],
  ];
  for (const [value, says] of malformed)
    it(`${JSON.stringify(value)} -> ${says}`, () => {
      expect(() => parseIoLimitsJson(value)).to.throw(InvalidArgumentError, says);
    });

  it("takes lower rates from a registry, which 0.1.0 has stored", () => {
    expect(parseAcceptedIoLimits({ ...none, readBytesPerSecond: 50 })).to.include({ readBytesPerSecond: 50 });
    expect(() => parseAcceptedIoLimits({ ...none, readBytesPerSecond: -1 })).to.throw(InvalidArgumentError);
  });

  it("compares all limits", () => {
    expect(sameIoLimits(undefined, undefined)).to.equal(true);
    expect(sameIoLimits({ ...none, readIops: 1 }, undefined)).to.equal(false);
    for (const limit of Object.keys(none))
      expect(sameIoLimits({ ...none }, { ...none, [limit]: 1 }), limit).to.equal(false);
  });
});
