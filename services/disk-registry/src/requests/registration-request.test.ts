import { RegisterAgentRequest } from "@diskmesh/api/internal";
import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { REGISTRY_LIMITS } from "../config/limits.js";
import { hostId } from "../testing/fleet-fixture.js";
import { parseRegistration } from "./registration-request.js";

const device = (change: object) => ({
  deviceId: "d1",
  path: "/dev/d1",
  sizeBytes: 4_096,
  blockSizeBytes: 4_096,
  health: "HEALTH_ONLINE",
  ...change,
});
const parse = (devices: readonly object[], change: object = {}) => {
  const request = { hostId: "h1", address: "127.0.0.1:1", az: "z1", bootId: "boot-1", ...change };
  return parseRegistration(
    RegisterAgentRequest.fromPartial({ ...request, devices } as object),
    hostId("h1"),
    { limits: REGISTRY_LIMITS, serialNumbersOfMany: new Set(["of-many"]) },
    0,
  );
};

describe("a registration request", () => {
  const malformed: readonly [string, object, RegExp][] = [
    ["a path with a tab", { path: "/dev/a\tb" }, /holds a control character/],
    ["a path with a newline", { path: "/dev/a\nb" }, /holds a control character/],
    ["a path of 10 KiB", { path: "/".repeat(10_240) }, /longer than 4096/],
    ["no size", { sizeBytes: 0 }, /size_bytes is 0/],
    ["a pool that is no name", { pool: "a b" }, /pool/],
    ["a session that nobody can have given", { sessionNumber: 2 ** 52 }, /session_number/],
  ];
  for (const [what, change, says] of malformed)
    it(`with a device of ${what} -> refuses that device alone`, () => {
      const { devices, refusedDevices = [], remembered } = parse([device(change), device({ deviceId: "d2" })]);
      expect(devices.map(({ deviceId }) => deviceId)).to.deep.equal(["d2"]);
      expect(refusedDevices).to.have.length(1);
      expect(refusedDevices[0]?.reason).to.match(says);
      expect(remembered.sessionNumber).to.equal(0);
    });

  it("drops a serial number that an operator says many drives bear", () => {
    const { devices } = parse([
      device({ serialNumber: "of-many" }),
      device({ deviceId: "d2", serialNumber: "its-own" }),
    ]);
    expect(devices.map(({ serialNumber }) => serialNumber)).to.deep.equal(["", "its-own"]);
  });

  it("with a malformed az or device id, or a device named twice -> refused as a whole", () => {
    expect(() => parse([device({ deviceId: "../d1" })])).to.throw(InvalidArgumentError, /device_id/);
    expect(() => parse([], { az: "z 1" })).to.throw(InvalidArgumentError, /az "z 1" is malformed/);
    expect(() => parse([device({}), device({})])).to.throw(InvalidArgumentError, /names "d1" twice/);
  });
});
