import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { InvalidArgumentError, OutdatedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import { DONE } from "../testing/agent-scene.js";
import { rawStream } from "../testing/raw-stream.js";
import { SIZE_BYTES, TwoAgents } from "../testing/two-agents.js";

describe("disks exported between two agents", () => {
  const agents = TwoAgents.forAllTests();

  it("are written on one host and read on the other, and the earlier host is fenced off", async () => {
    const data = randomBytes(2 * SIZE_BYTES);
    const first = await agents.publish("disk-1", agents.one);
    expect(first.socketPath).to.equal(join(agents.one.baseFolder, "exports", "disk-1.sock"));
    expect(statSync(join(agents.one.baseFolder, "exports")).mode & 0o777).to.equal(0o700);
    const writer = await NbdClient.connect({ socketPath: first.socketPath });
    await writer.write(0, data);
    await writer.flush();
    expect(readFileSync(join(agents.folder, "host-2", "a")).equals(data.subarray(SIZE_BYTES))).to.equal(true);

    const second = await agents.publish("disk-1", agents.two);
    const reader = await NbdClient.connect({ socketPath: second.socketPath });
    expect((await reader.read(0, 2 * SIZE_BYTES)).equals(data)).to.equal(true);
    for (const offset of [0, SIZE_BYTES, 2 * SIZE_BYTES - 1]) {
      const late = await writer.write(offset, Buffer.alloc(1, 1)).then(
        () => "written",
        (error) => error.code,
      );
      expect(late, `late write at ${offset}`).to.equal("ESHUTDOWN");
    }
    expect((await reader.read(0, 2 * SIZE_BYTES)).equals(data)).to.equal(true);

    await agents.ordersOne.unexport("disk-1", second.number);
    expect(existsSync(first.socketPath)).to.equal(false);
    expect(
      await agents.ordersOne
        .export("disk-1", first.number, [agents.extentOn(agents.one, "a")])
        .catch((error) => error.name),
    ).to.equal("OutdatedError");
    await reader.disconnect();
    await agents.ordersTwo.unexport("disk-1", second.number);
    expect(existsSync(second.socketPath)).to.equal(false);
  });

  it("take no byte of a lower session's running writes after a higher session is granted, on either host", async () => {
    for (let round = 0; round < 3; round += 1) {
      const old = await agents.publish("disk-2", agents.one);
      const writers = await Promise.all([1, 2].map(() => NbdClient.connect({ socketPath: old.socketPath })));
      let stopped = false;
      const flood = writers.map(async (writer, index) => {
        for (let at = 0; !stopped; at = (at + 65_536) % (2 * SIZE_BYTES))
          await writer.write(at, Buffer.alloc(65_536, 100 + index)).catch(() => {
            stopped = true;
          });
      });
      await sleep(50 + 40 * round);
      const fresh = await agents.publish("disk-2", agents.two);
      const client = await NbdClient.connect({ socketPath: fresh.socketPath });
      const pattern = Buffer.alloc(2 * SIZE_BYTES, round + 1);
      await client.write(0, pattern);
      await client.flush();
      await Promise.all(flood);
      await sleep(100);
      expect((await client.read(0, 2 * SIZE_BYTES)).equals(pattern), `round ${round}`).to.equal(true);
      for (const writer of writers) await writer.disconnect();
      await client.disconnect();
    }
  });

  it("keep requests waiting for a killed agent, and lose nothing acknowledged", async () => {
    const { socketPath } = await agents.publish("disk-3", agents.one, "b");
    const client = await NbdClient.connect({ socketPath });
    const before = Buffer.alloc(SIZE_BYTES, 7);
    await client.write(SIZE_BYTES, before);
    await agents.two.process.kill();
    const after = Buffer.alloc(4096, 8);
    const writing = client.write(SIZE_BYTES + 4096, after);
    const flushing = client.flush();
    const local = await client.read(0, 4096);
    expect(local.length).to.equal(4096);
    await agents.two.process.start();
    await Promise.all([writing, flushing]);
    before.set(after, 4096);
    expect((await client.read(SIZE_BYTES, SIZE_BYTES)).equals(before)).to.equal(true);
    expect(readFileSync(join(agents.folder, "host-2", "b")).equals(before)).to.equal(true);
    agents.ordersTwo.client.close();
    agents.ordersTwo = await agents.ordersOf(agents.two, agents.registry.registrations.length - 1);
    await client.disconnect();
  });

  it("are served and reported again by a restarted agent", async function () {
    leaveToVerify(this);
    const { socketPath, number } = await agents.publish("disk-4", agents.one, "b");
    const client = await NbdClient.connect({ socketPath });
    await client.write(SIZE_BYTES - 10, Buffer.alloc(20, 4), { fua: true });
    const registrations = agents.registry.registrations.length;
    await agents.one.process.kill();
    await client.disconnect();
    await agents.one.process.start();
    const again = await NbdClient.connect({ socketPath });
    expect((await again.read(SIZE_BYTES - 10, 20)).equals(Buffer.alloc(20, 4))).to.equal(true);
    await again.disconnect();
    const { exports, devices } = await agents.registry.registered("host-1", registrations);
    expect(exports).to.deep.include({ diskId: "disk-4", sessionNumber: number });
    expect(devices.find(({ deviceId }) => deviceId === "host-1-b")).to.include({
      sessionNumber: number,
      attached: true,
    });
    agents.ordersOne.client.close();
    agents.ordersOne = await agents.ordersOf(agents.one, registrations);
    await agents.ordersOne.unexport("disk-4", number);
  });

  it("are answered and their sockets removed when the agent stops with exit code 0", async () => {
    const { socketPath } = await agents.publish("disk-8", agents.one, "b");
    const client = await NbdClient.connect({ socketPath });
    const registrations = agents.registry.registrations.length;
    const write = client.write(0, Buffer.alloc(SIZE_BYTES, 5), { fua: true }).then(
      () => "written",
      (error) => error.message,
    );
    await sleep(5);
    const began = performance.now();
    expect(await agents.one.process.stop()).to.include({ code: 0 });
    expect(performance.now() - began).to.be.lessThan(30_000);
    expect(existsSync(socketPath)).to.equal(false);
    const bytes = readFileSync(join(agents.folder, "host-1", "b"));
    if ((await write) === "written") expect(bytes.equals(Buffer.alloc(SIZE_BYTES, 5))).to.equal(true);
    else expect(await write).to.match(/ended/);
    await agents.one.process.start();
    await (await NbdClient.connect({ socketPath })).disconnect();
    agents.ordersOne.client.close();
    agents.ordersOne = await agents.ordersOf(agents.one, registrations);
  });

  it("are refused for devices that are not granted, unknown or too small", async () => {
    const extent = agents.extentOn(agents.one, "a");
    agents.session += 2;
    const nameOf = (promise: Promise<unknown>) =>
      promise.then(
        () => "served",
        (error) => error.name,
      );
    expect(await nameOf(agents.ordersOne.export("disk-5", agents.session, [extent]))).to.equal("UnavailableError");
    expect(
      await nameOf(agents.ordersOne.export("disk-5", agents.session, [{ ...extent, deviceId: "nobody" }])),
    ).to.equal("NotFoundError");
    await agents.ordersOne.openSession(["host-1-a"], agents.session, "disk-5", "host-1");
    expect(
      await nameOf(agents.ordersOne.export("disk-5", agents.session, [{ ...extent, sizeBytes: SIZE_BYTES + 1 }])),
    ).to.equal("InvalidArgumentError");
    expect(await nameOf(agents.ordersOne.export("../disk", agents.session, [extent]))).to.equal("InvalidArgumentError");
    expect(await nameOf(agents.ordersOne.export("disk-5", agents.session, []))).to.equal("InvalidArgumentError");
    expect(await nameOf(agents.ordersOne.export("disk-5", agents.session, [extent]))).to.equal("served");
    await agents.ordersOne.unexport("disk-5", agents.session);
  });

  it("open the session together with an export's begin and end, and serve nothing that a device refuses", async () => {
    const extents = [agents.extentOn(agents.one, "a"), agents.extentOn(agents.one, "b")];
    agents.session += 1;
    const outcomesOf = ({ outcomes }: { outcomes: { deviceId: string; outcome: string }[] }) =>
      outcomes.map(({ deviceId, outcome }) => `${deviceId} ${outcome}`);
    const both = (outcome: string) =>
      ["host-1-a", "host-1-b"].map((deviceId) => `${deviceId} ORDER_OUTCOME_${outcome}`);
    const served = await agents.ordersOne.exportAtOnce("disk-8", agents.session, extents);
    expect(outcomesOf(served)).to.deep.equal(both("DONE"));
    const writer = await NbdClient.connect({ socketPath: served.exportPath });
    await writer.write(0, Buffer.alloc(4096, 8), { fua: true });
    const again = await agents.ordersOne.exportAtOnce("disk-8", agents.session, extents);
    expect(outcomesOf(again)).to.deep.equal(both("ALREADY"));
    expect(again.exportPath).to.equal(served.exportPath);

    const fence = agents.session + 1;
    const ended = await agents.ordersOne.unexportAtOnce("disk-8", fence, ["host-1-a", "host-1-b"]);
    expect(outcomesOf(ended)).to.deep.equal(both("DONE"));
    expect(existsSync(served.exportPath)).to.equal(false);
    expect(await agents.ordersOne.openSession(["host-1-a"], agents.session, "disk-8", "host-1")).to.deep.equal([
      "ORDER_OUTCOME_OUTDATED",
    ]);

    // One device obeys a higher session already, so the grant of the other device must not suffice to serve the disk.
    agents.session += 4;
    await agents.ordersOne.openSession(["host-1-b"], agents.session, "disk-9", "host-1");
    const refused = await agents.ordersOne.exportAtOnce("disk-8", agents.session - 1, extents);
    expect(outcomesOf(refused)).to.deep.equal(["host-1-a ORDER_OUTCOME_DONE", "host-1-b ORDER_OUTCOME_OUTDATED"]);
    expect(refused.exportPath).to.equal("");
    expect(existsSync(served.exportPath)).to.equal(false);
    const request = { diskId: "disk-8", sessionNumber: agents.session + 1, extents };
    const stale = { ...request, bootId: "another start", stamp: agents.registry.stamp(), blockSizeBytes: 4096 };
    await rejection(agents.ordersOne.client.exportDisk({ ...stale, openDeviceIds: ["host-1-a"] }), OutdatedError);
    await rejection(
      agents.ordersOne.unexportAtOnce("disk-8", agents.session + 1, ["host-1-a", "host-1-a"]),
      InvalidArgumentError,
    );
    expect(await agents.ordersOne.openSession(["host-1-a"], agents.session, "disk-8", "host-1")).to.deep.equal([DONE]);
    await agents.ordersOne.unexport("disk-8", agents.session);
  });

  it("are fenced off by an erase of a device", async function () {
    leaveToVerify(this);
    const { socketPath } = await agents.publish("disk-6", agents.one);
    const client = await NbdClient.connect({ socketPath });
    await client.write(0, Buffer.alloc(SIZE_BYTES, 9), { fua: true });
    agents.session += 1;
    const request = {
      bootId: agents.ordersOne.bootId,
      stamp: agents.registry.stamp(),
      sessionNumber: agents.session,
      deviceId: "host-1-a",
    };
    await eventually(async () => (await agents.ordersOne.client.eraseDevice(request)).outcome?.outcome === DONE);
    expect(readFileSync(join(agents.folder, "host-1", "a")).equals(Buffer.alloc(SIZE_BYTES))).to.equal(true);
    expect(await client.write(0, Buffer.alloc(1, 1)).catch((error) => error.code)).to.equal("ESHUTDOWN");
    await client.disconnect();
  });

  describe("BlockIo", () => {
    const stream = (as: string, deviceId = "host-1-b") =>
      rawStream(agents.one.address, agents.certs.files(as), deviceId);

    const openFor = async (holder: string) => {
      agents.session += 1;
      await agents.ordersOne.openSession(["host-1-b"], agents.session, "disk-7", holder);
      return agents.session;
    };

    it("is for the session's holder and disk only", async () => {
      const number = await openFor("host-2");
      const rows: [string, string, number, string, string][] = [
        ["operator", "host-1-b", number, "disk-7", "PermissionDeniedError"],
        ["disk-registry", "host-1-b", number, "disk-7", "PermissionDeniedError"],
        ["disk-agent-host-1", "host-1-b", number, "disk-7", "PermissionDeniedError"],
        ["disk-agent-host-2", "host-1-b", number, "disk-8", "PermissionDeniedError"],
        ["disk-agent-host-2", "nobody", number, "disk-7", "NotFoundError"],
        ["disk-agent-host-2", "host-1-b", number + 1, "disk-7", "UnavailableError"],
        ["disk-agent-host-2", "host-1-b", number - 1, "disk-7", "OutdatedError"],
        ["disk-agent-host-2", "../b", number, "disk-7", "InvalidArgumentError"],
      ];
      for (const [as, deviceId, sessionNumber, diskId, error] of rows) {
        const io = stream(as, deviceId);
        io.open(sessionNumber, diskId);
        expect(await io.failure(), `${as} ${deviceId} ${sessionNumber} ${diskId}`).to.equal(error);
        io.close();
      }
      const unopened = stream("disk-agent-host-2");
      unopened.send(1, { $case: "flush", value: {} });
      expect(await unopened.failure()).to.equal("InvalidArgumentError");
      unopened.close();
    });

    it("answers each operation by its id, names errors, and ends with ESTALE when superseded", async () => {
      const io = stream("disk-agent-host-2");
      io.open(await openFor("host-2"));
      expect(await io.next()).to.include({ operationId: 0, errno: "" });
      io.send(1, { $case: "write", value: { offsetBytes: 0, data: Buffer.from("hello"), fua: true } });
      expect(await io.next()).to.include({ operationId: 1, errno: "" });
      io.send(2, { $case: "read", value: { offsetBytes: 0, lengthBytes: 5 } });
      const read = await io.next();
      expect([read.operationId, Buffer.from(read.data).toString()]).to.deep.equal([2, "hello"]);
      io.send(3, { $case: "read", value: { offsetBytes: SIZE_BYTES, lengthBytes: 1 } });
      expect(await io.next()).to.include({ operationId: 3, errno: "EINVAL" });
      io.send(4, { $case: "read", value: { offsetBytes: 0, lengthBytes: -1 } });
      expect(await io.next()).to.include({ operationId: 4, errno: "EINVAL" });
      io.send(5, undefined);
      expect(await io.next()).to.include({ operationId: 5, errno: "EINVAL" });
      for (let id = 10; id < 40; id += 1) io.send(id, { $case: "read", value: { offsetBytes: id, lengthBytes: 4096 } });
      const ids = new Set<number>();
      for (let count = 0; count < 30; count += 1) ids.add((await io.next()).operationId);
      expect(ids.size).to.equal(30);
      await openFor("");
      io.send(6, { $case: "write", value: { offsetBytes: 0, data: Buffer.from("late!"), fua: false } });
      expect(await io.next()).to.include({ operationId: 6, errno: "ESTALE" });
      expect(
        readFileSync(join(agents.folder, "host-1", "b"))
          .subarray(0, 5)
          .toString(),
      ).to.equal("hello");
      io.close();
    });

    it("ends a stream when a second one of its session begins", async () => {
      const number = await openFor("host-2");
      const [first, second] = [stream("disk-agent-host-2"), stream("disk-agent-host-2")];
      first.open(number);
      await first.next();
      second.open(number);
      expect(await second.next()).to.include({ operationId: 0, errno: "" });
      expect(await first.failure()).to.equal("UnavailableError");
      second.send(1, { $case: "flush", value: {} });
      expect(await second.next()).to.include({ operationId: 1, errno: "" });
      first.close();
      second.close();
    });

    it("fails on a detached device as retriable, and works after it is attached again", async function () {
      leaveToVerify(this);
      const number = await openFor("host-2");
      const io = stream("disk-agent-host-2");
      io.open(number);
      await io.next();
      expect(await agents.ordersOne.detach("host-1-b")).to.equal(DONE);
      io.send(1, { $case: "read", value: { offsetBytes: 0, lengthBytes: 1 } });
      expect(await io.failure()).to.equal("UnavailableError");
      io.close();
      expect(await agents.ordersOne.attach("host-1-b")).to.equal(DONE);
      const again = stream("disk-agent-host-2");
      again.open(number);
      expect(await again.next()).to.include({ errno: "" });
      again.close();
    });
  });
});
