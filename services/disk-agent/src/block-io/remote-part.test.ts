import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import { type DeviceId, type DiskId, InvalidArgumentError, silentLogger } from "@diskmesh/domain";
import { createClient, DEFAULT_RPC_SERVER_LIMITS, RpcServer } from "@diskmesh/rpc";
import { systemClock } from "@diskmesh/service";
import { eventually, fakeHandlers, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { CuttableProxy } from "../testing/cuttable-proxy.js";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";
import { RemotePart } from "./remote-part.js";
import { serveBlockIo } from "./serve-stream.js";

const SIZE = 64 * 4096;
const OPERATION_TIMEOUT_MS = 5_000;

describe("a device of another host", () => {
  let fixture: DeviceFixture;
  let server: RpcServer;
  let proxy: CuttableProxy;
  let remote: RemotePart;
  let machineBootId: string;
  let connections: number;
  let failures: number;

  beforeEach(async () => {
    const certs = await testCertificates({ hostIds: ["host-1", "host-2"] });
    machineBootId = "machine-1";
    connections = 0;
    failures = 0;
    fixture = new DeviceFixture([{ id: "a", file: "a" }]);
    makeDeviceFile(fixture.folder, "a", SIZE);
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 1, "host-2");
    const limits = { maxInFlightPerStream: 8, maxReadBytes: 8192, takeOverTimeoutMs: 200 };
    server = new RpcServer({
      tls: certs.files("disk-agent-host-1"),
      limits: { ...DEFAULT_RPC_SERVER_LIMITS, drainTimeoutMs: 100 },
    });
    server.addService(DiskAgentServiceDefinition, {
      roles: ["disk-agent"],
      handlers: fakeHandlers(DiskAgentServiceDefinition, {
        blockIo: (requests, call) =>
          serveBlockIo(requests, call, { ...fixture, clock: systemClock, limits, machineBootId }),
      }),
    });
    proxy = await CuttableProxy.start(await server.listen({ host: "127.0.0.1", port: 0 }));
    remote = new RemotePart({
      connect: () => {
        if (failures-- > 0) throw new InvalidArgumentError("cannot read the key");
        connections++;
        return createClient(DiskAgentServiceDefinition, {
          address: `127.0.0.1:${proxy.port}`,
          tls: certs.files("disk-agent-host-2"),
          serverRole: "disk-agent",
          serverName: "host-1",
          defaultDeadlineMs: 60_000,
        });
      },
      diskId: "disk-1" as DiskId,
      deviceId: "a" as DeviceId,
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
    await server.drain();
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
    expect(await nameOf(remote.clear(0, SIZE + 1, { kind: "zero", fua: false }))).to.equal("InvalidArgumentError");
  });

  it("is connected with the first operation, once, and again after a failure", async () => {
    expect(connections).to.equal(0);
    failures = 2;
    await remote.write(0, Buffer.alloc(4096, 1), false);
    proxy.cut();
    await remote.write(0, Buffer.alloc(4096, 2), false);
    expect([failures, connections]).to.deep.equal([-1, 1]);
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
    await fixture.openSession("a", 2, "host-2");
    expect(await nameOf(remote.write(0, Buffer.alloc(1, 9), false))).to.equal("OutdatedError");
    expect(await nameOf(remote.read(0, 1))).to.equal("OutdatedError");
    expect(bytes()[0]).to.equal(1);
  });

  it("fails with OUTDATED when superseded during an outage", async () => {
    await remote.read(0, 1);
    await fixture.openSession("a", 2, "host-2");
    proxy.cut();
    expect(await nameOf(remote.write(0, Buffer.alloc(1, 9), false))).to.equal("OutdatedError");
    expect(bytes()[0]).to.equal(0);
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
    await server.drain();
    const write = nameOf(remote.write(0, Buffer.alloc(1, 1), false));
    await sleep(50);
    remote.close();
    expect(await write).to.equal("UnavailableError");
    expect(await nameOf(remote.read(0, 1))).to.equal("UnavailableError");
  });
});
