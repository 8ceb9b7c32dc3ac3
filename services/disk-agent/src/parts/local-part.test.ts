import { OutdatedError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { systemClock } from "@diskmesh/service";
import { expect } from "chai";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";
import { LocalPart } from "./local-part.js";

describe("I/O on a device of this host", () => {
  let fixture: DeviceFixture;
  const part = (timeoutMs: number) =>
    new LocalPart(
      fixture.device("a"),
      { sessionNumber: 1, offsetBytes: 0 },
      { devices: fixture.devices, clock: systemClock, timeoutMs },
    );

  beforeEach(async () => {
    fixture = new DeviceFixture([{ id: "a", file: "a" }]);
    makeDeviceFile(fixture.folder, "a", 16 * 4096);
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 1);
    await fixture.order("detach", "a", 2);
  });

  afterEach(() => fixture.stop());

  it("waits for a device that cannot be used, and continues once it can", async () => {
    const written = part(60_000).write(0, Buffer.from("late"), true);
    expect(await fixture.order("attach", "a", 3)).to.equal("done");
    await written;
    expect((await part(0).read(0, 4)).toString()).to.equal("late");
  });

  it("fails after its timeout", async () => {
    const { changes } = fixture.devices;
    const devices = {
      changes,
      until: <T>(find: () => T | undefined, timeoutMs = 0) =>
        changes.until(undefined, find, { timeoutMs, clock: systemClock }),
    };
    const waiting = new LocalPart(
      fixture.device("a"),
      { sessionNumber: 1, offsetBytes: 0 },
      { devices, clock: systemClock, timeoutMs: 20 },
    );
    await rejection(waiting.read(0, 1), UnavailableError, "not attached");
  });

  it("fails at once when its session is superseded, or its export ends", async () => {
    const waiting = part(60_000);
    const ended = waiting.flush();
    waiting.close();
    await rejection(ended, UnavailableError, "not attached");
    const superseded = rejection(part(60_000).read(0, 1), OutdatedError, "session 2 was opened later");
    await fixture.openSession("a", 2);
    await superseded;
  });
});
