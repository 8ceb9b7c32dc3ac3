import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { DeviceMapper } from "./device-mapper.js";

/** Words of dmsetup 1.02.185 when a device ends while it lists tables. */
const GONE =
  "dmsetup table failed: diskmesh-1-guard-7_0-14: 0 2048 linear 7:0 0; device-mapper: table ioctl on diskmesh-1-leg-3-0-a  failed: No such device or address; Command failed.";

/** Fails calls of these numbers. */
function failing(reason: string, isFailed: (call: number) => boolean) {
  let calls = 0;
  const call = async () => {
    if (isFailed(++calls)) throw new UnavailableError(reason);
    return "";
  };
  return { mapper: new DeviceMapper("/", call), calls: () => calls };
}

describe("the list of an agent's devices", () => {
  it("is made again when a device has ended meanwhile", async () => {
    const { mapper, calls } = failing(GONE, (call) => call === 2 || call === 3);
    expect(await mapper.list()).to.deep.equal([]);
    expect(calls()).to.equal(4);
  });

  it("fails with the reason of dmsetup when that does not end, and at once for any other", async () => {
    expect((await rejection(failing(GONE, () => true).mapper.list())).message).to.equal(GONE);
    const { mapper, calls } = failing("dmsetup info failed: Permission denied", () => true);
    expect((await rejection(mapper.list())).message).to.contain("Permission denied");
    expect(calls()).to.equal(1);
  });
});
