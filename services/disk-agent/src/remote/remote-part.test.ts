import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type DeviceId, type DiskId, InvalidArgumentError, silentLogger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/service";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CuttableProxy } from "../testing/cuttable-proxy.js";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";
import { listenForHolders } from "../testing/listen-for-holders.js";
import { DeviceAccess } from "./device-access.js";
import { linkOverNbd } from "./device-link.js";
import type { DeviceListener } from "./device-listener.js";
import { RemotePart } from "./remote-part.js";

const SIZE = 64 * 4096;
const OPERATION_TIMEOUT_MS = 5_000;
const DEVICE_ID = "a" as DeviceId;

describe("a device of another host", () => {
  let fixture: DeviceFixture;
  let listener: DeviceListener;
  let proxy: CuttableProxy;
  let remote: RemotePart;
  let machineBootId: string;
  /** Key that the holder has. */
  let sessionKey: string;
  let connections: number;
  let failures: number;

  const openSession = (number: number, key: string | undefined = randomBytes(32).toString("hex")) =>
    fixture.openSession("a", number, "host-2", key);

  beforeEach(async () => {
    machineBootId = "machine-1";
    sessionKey = randomBytes(32).toString("hex");
    connections = 0;
    failures = 0;
    fixture = new DeviceFixture([{ id: "a", file: "a" }]);
    makeDeviceFile(fixture.folder, "a", SIZE);
    await fixture.order("attach", "a", 1);
    await openSession(1, sessionKey);
    const { devices, ledger } = fixture;
    const access = () => new DeviceAccess({ devices, ledger, machineBootId, takeOverTimeoutMs: 200 });
    listener = await listenForHolders(access, SIZE);
    proxy = await CuttableProxy.start(listener.port);
    remote = new RemotePart({
      connect: async (signal) => {
        if (failures-- > 0) throw new InvalidArgumentError("cannot read the address");
        connections++;
        const address = `127.0.0.1:${proxy.port}`;
        return linkOverNbd({ address, deviceId: DEVICE_ID, sessionNumber: 1, sessionKey }, signal);
      },
      diskId: "disk-1" as DiskId,
      deviceId: DEVICE_ID,
      sessionNumber: 1,
      limits: {
        operationTimeoutMs: OPERATION_TIMEOUT_MS,
        maxInFlight: 8,
        chunkBytes: 4096,
        reconnect: { minDelayMs: 20, maxDelayMs: 100 },
      },
      clock: systemClock,
      random: Math.random,
      log: silentLogger,
    });
  });

  afterEach(async () => {
    fixture.files.writes.open();
    remote.close();
    await proxy.close();
    await listener.close();
    await fixture.stop();
  });

  const bytes = () => readFileSync(join(fixture.folder, "a"));
  const nameOf = (promise: Promise<unknown>) =>
    promise.then(
      () => "succeeded",
      (error: Error) => error.name,
    );

  it("splits large reads and writes", async () => {
    const data = Buffer.from(Array.from({ length: SIZE - 10 }, (_, index) => index % 251));
    await remote.write(10, data, false);
    await remote.flush();
    expect(Buffer.from(await remote.read(10, data.length)).equals(data)).to.equal(true);
    expect(bytes().subarray(10).equals(data)).to.equal(true);
  });

  it("clears bytes of each kind", async () => {
    const data = Buffer.alloc(SIZE, 7);
    await remote.write(0, data, false);
    await remote.clear(0, 4096, { kind: "discard", fua: false });
    await remote.clear(8192, 4096, { kind: "zero", fua: true });
    await remote.clear(16_384, 100, { kind: "write zeros", fua: false });
    for (const [start, length] of [
      [0, 4096],
      [8192, 4096],
      [16_384, 100],
    ] as const)
      data.fill(0, start, start + length);
    expect(bytes().equals(data)).to.equal(true);
    expect(await nameOf(remote.clear(0, SIZE + 1, { kind: "discard", fua: false }))).to.equal("InvalidArgumentError");
  });

  it("is connected with the first operation, and again after a failure or a cut", async () => {
    expect(connections).to.equal(0);
    failures = 2;
    await remote.write(0, Buffer.alloc(4096, 1), false);
    expect(connections).to.equal(1);
    proxy.cut();
    await remote.write(0, Buffer.alloc(4096, 2), false);
    expect([failures, connections]).to.deep.equal([-2, 2]);
    expect(bytes().subarray(0, 4096).equals(Buffer.alloc(4096, 2))).to.equal(true);
  });

  it("names errors as the device does", async () => {
    expect(await nameOf(remote.read(SIZE, 1))).to.equal("InvalidArgumentError");
    fixture.files.failNextSync = Object.assign(new Error("the drive is gone"), { code: "EIO" });
    expect(await nameOf(remote.flush())).to.equal("DeviceIoError");
  });

  it("continues after each cut of its connection", async () => {
    for (let round = 1; round <= 3; round += 1) {
      const write = remote.write(0, Buffer.alloc(SIZE, round), false);
      proxy.cut();
      await write;
      expect(bytes().equals(Buffer.alloc(SIZE, round))).to.equal(true);
    }
  });

  it("never lands a repeated write after a later write", async () => {
    await remote.read(0, 1);
    fixture.files.writes.shut();
    const first = remote.write(0, Buffer.alloc(6 * 4096, 1), false);
    // The device has four operations in flight, and two wait in the agent's queue.
    await eventually(() => fixture.files.writes.arrivals === 4);
    proxy.cut();
    await sleep(500);
    expect(fixture.files.writes.arrivals, "sent again while the first ones hang").to.equal(4);
    fixture.files.writes.open();
    await first;
    expect(fixture.files.writes.arrivals, "all six again, and none that was queued").to.equal(10);
    await remote.write(0, Buffer.alloc(6 * 4096, 2), false);
    expect(bytes().subarray(0, 6 * 4096)).to.deep.equal(Buffer.alloc(6 * 4096, 2));
  });

  it("fails an operation without an answer after its timeout", async () => {
    await remote.read(0, 1);
    proxy.holdAnswers();
    const began = performance.now();
    expect(await nameOf(remote.write(0, Buffer.alloc(4096, 1), false))).to.equal("UnavailableError");
    expect(performance.now() - began).to.be.within(OPERATION_TIMEOUT_MS - 50, OPERATION_TIMEOUT_MS + 30_000);
    proxy.cut();
    await remote.write(0, Buffer.alloc(4096, 2), false);
    expect(bytes()[0]).to.equal(2);
  });

  it("never lands an operation that timed out after a later one", async () => {
    await remote.read(0, 1);
    fixture.files.writes.shut();
    expect(await nameOf(remote.write(0, Buffer.alloc(4096, 1), false))).to.equal("UnavailableError");
    const later = remote.write(0, Buffer.alloc(4096, 2), false);
    await sleep(500);
    expect(fixture.files.writes.arrivals).to.equal(1);
    fixture.files.writes.open();
    await later;
    expect(bytes()[0]).to.equal(2);
  });

  it("fails at once and for good with OUTDATED when superseded", async () => {
    await remote.write(0, Buffer.alloc(1, 1), false);
    await openSession(2);
    expect(await nameOf(remote.write(0, Buffer.alloc(1, 9), false))).to.equal("OutdatedError");
    expect(await nameOf(remote.read(0, 1))).to.equal("OutdatedError");
    expect(bytes()[0]).to.equal(1);
  });

  it("fails with OUTDATED when superseded during an outage", async () => {
    await remote.read(0, 1);
    await openSession(2);
    proxy.cut();
    expect(await nameOf(remote.write(0, Buffer.alloc(1, 9), false))).to.equal("OutdatedError");
    expect(bytes()[0]).to.equal(0);
  });

  it("fails each operation with OUTDATED while the device's agent refuses the session, and asks again with the next", async () => {
    fixture.ledger.remember({ ...fixture.ledger.memory, devices: new Map() });
    await openSession(2);
    for (let round = 1; round <= 2; round += 1) {
      expect(await nameOf(remote.read(0, 1))).to.equal("OutdatedError");
      expect(connections).to.equal(round);
    }
  });

  it("waits for the key of the session when the device's agent has got another", async () => {
    await remote.read(0, 1);
    const next = randomBytes(32).toString("hex");
    await openSession(1, next);
    await remote.write(0, Buffer.alloc(1, 3), false);
    proxy.cut();
    const write = remote.write(0, Buffer.alloc(1, 4), false);
    await eventually(() => connections > 2);
    expect(bytes()[0], "written with the former key on a connection from before, not on a new one").to.equal(3);
    sessionKey = next;
    await write;
    expect(bytes()[0]).to.equal(4);
  });

  it("waits for a session that the device's agent has forgotten", async () => {
    const { memory } = fixture.ledger;
    await remote.read(0, 1);
    fixture.ledger.remember({ ...memory, devices: new Map() });
    proxy.cut();
    const write = remote.write(0, Buffer.alloc(1, 4), false);
    await eventually(() => connections > 2);
    fixture.ledger.remember(memory);
    await write;
    expect(bytes()[0]).to.equal(4);
  });

  it("waits for a device that is detached and attached again", async () => {
    await remote.read(0, 1);
    await fixture.order("detach", "a", 2);
    const write = remote.write(0, Buffer.alloc(1, 5), false);
    await sleep(200);
    await fixture.order("attach", "a", 3);
    await write;
    expect(bytes()[0]).to.equal(5);
  });

  it("fails a flush after a restart of the machine with writes that were not flushed", async () => {
    await remote.write(0, Buffer.alloc(1, 1), false);
    machineBootId = "machine-2";
    proxy.cut();
    expect(await nameOf(remote.flush())).to.equal("DeviceIoError");
    expect(await nameOf(remote.flush())).to.equal("DeviceIoError");
  });

  it("loses nothing in a restart of the machine after a flush", async () => {
    await remote.write(0, Buffer.alloc(1, 1), false);
    await remote.flush();
    await remote.write(1, Buffer.alloc(1, 2), true);
    machineBootId = "machine-2";
    proxy.cut();
    await remote.flush();
  });

  it("fails waiting operations at once when closed", async () => {
    await listener.close();
    const write = nameOf(remote.write(0, Buffer.alloc(1, 1), false));
    await sleep(50);
    remote.close();
    expect(await write).to.equal("UnavailableError");
    expect(await nameOf(remote.read(0, 1))).to.equal("UnavailableError");
  });
});
