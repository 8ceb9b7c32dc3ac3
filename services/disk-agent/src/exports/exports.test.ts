import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type BlockIoRequest, type BlockIoResponse, DiskAgentServiceDefinition } from "@diskmesh/api/agent";
import { InvalidArgumentError, OutdatedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createClient, type PartialOf } from "@diskmesh/rpc";
import { eventually, leaveToVerify, type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { AsyncQueue } from "../block-io/async-queue.js";
import { NbdClient } from "../nbd/client.js";
import { startTestAgent, type TestAgent } from "../testing/agent-process.js";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { AgentOrders, TestRegistry } from "../testing/test-registry.js";

const SIZE = 2 * 1024 * 1024;
const DONE = "ORDER_OUTCOME_DONE";

describe("disks exported between two agents", () => {
  let certs: TestCertificates;
  let folder: string;
  let registry: TestRegistry;
  let one: TestAgent;
  let two: TestAgent;
  let ordersOne: AgentOrders;
  let ordersTwo: AgentOrders;
  let session: number;

  before(async () => {
    certs = await testCertificates({ hostIds: ["host-1", "host-2"] });
    // Spaces, and deeper than a Unix socket's path may be.
    folder = join(temporaryFolder(), "a folder with spaces ".repeat(6).trim());
    registry = new TestRegistry(certs.files("disk-registry"));
    await registry.start();
    one = await startAgent("host-1");
    two = await startAgent("host-2");
    ordersOne = await ordersOf(one);
    ordersTwo = await ordersOf(two);
    session = 0;
  });

  after(async () => {
    ordersOne?.client.close();
    ordersTwo?.client.close();
    await Promise.all([one?.process.kill(), two?.process.kill()]);
    await registry.stop();
  });

  const startAgent = async (hostId: string) => {
    const devices = ["a", "b"].map((name) => ({
      deviceId: `${hostId}-${name}`,
      path: join(folder, hostId, name),
      sizeBytes: SIZE,
    }));
    mkdirSync(join(folder, hostId), { recursive: true });
    for (const name of ["a", "b"]) makeDeviceFile(join(folder, hostId), name, SIZE);
    return startTestAgent({
      hostId,
      folder: join(folder, hostId),
      certs,
      registryAddress: registry.address,
      devices,
      config: { timeouts: { orderTimeoutMs: 1_000, remoteIoTimeoutMs: 60_000, drainTimeoutMs: 300 } },
    });
  };

  const ordersOf = async (agent: TestAgent, after = 0) => {
    const { bootId } = await registry.registered(agent.hostId, after);
    return new AgentOrders(registry, agent.hostId, agent.address, certs.files("disk-registry"), bootId);
  };

  const extentOn = (agent: TestAgent, name: string) => ({
    deviceId: `${agent.hostId}-${name}`,
    hostId: agent.hostId,
    address: agent.address,
    sizeBytes: SIZE,
  });

  /** Opens a new session on both agents' first devices and serves them as one disk on `holder`. */
  const publish = async (diskId: string, holder: TestAgent, name = "a") => {
    session += 1;
    const number = session;
    expect(await ordersOne.openSession([`host-1-${name}`], number, diskId, holder.hostId)).to.deep.equal([DONE]);
    expect(await ordersTwo.openSession([`host-2-${name}`], number, diskId, holder.hostId)).to.deep.equal([DONE]);
    const orders = holder === one ? ordersOne : ordersTwo;
    const socketPath = await orders.export(diskId, number, [extentOn(one, name), extentOn(two, name)]);
    return { number, socketPath };
  };

  it("one disk of devices on two hosts is written on one and read on the other; the earlier host is fenced off", async () => {
    const data = randomBytes(2 * SIZE);
    const first = await publish("disk-1", one);
    expect(first.socketPath).to.equal(join(one.baseFolder, "exports", "disk-1.sock"));
    expect(statSync(join(one.baseFolder, "exports")).mode & 0o777).to.equal(0o700);
    const writer = await NbdClient.connect({ socketPath: first.socketPath });
    await writer.write(0, data);
    await writer.flush();
    expect(readFileSync(join(folder, "host-2", "a")).equals(data.subarray(SIZE))).to.equal(true);

    const second = await publish("disk-1", two);
    const reader = await NbdClient.connect({ socketPath: second.socketPath });
    expect((await reader.read(0, 2 * SIZE)).equals(data)).to.equal(true);
    for (const offset of [0, SIZE, 2 * SIZE - 1]) {
      const late = await writer.write(offset, Buffer.alloc(1, 1)).then(
        () => "written",
        (error) => error.code,
      );
      expect(late, `late write at ${offset}`).to.equal("ESHUTDOWN");
    }
    expect((await reader.read(0, 2 * SIZE)).equals(data)).to.equal(true);

    await ordersOne.unexport("disk-1", second.number);
    expect(existsSync(first.socketPath)).to.equal(false);
    expect(await ordersOne.export("disk-1", first.number, [extentOn(one, "a")]).catch((error) => error.name)).to.equal(
      "OutdatedError",
    );
    await reader.disconnect();
    await ordersTwo.unexport("disk-1", second.number);
    expect(existsSync(second.socketPath)).to.equal(false);
  });

  it("after a higher session is granted, no byte of writes under way in a lower one lands, on either host", async () => {
    for (let round = 0; round < 3; round += 1) {
      const old = await publish("disk-2", one);
      const writers = await Promise.all([1, 2].map(() => NbdClient.connect({ socketPath: old.socketPath })));
      let stopped = false;
      const flood = writers.map(async (writer, index) => {
        for (let at = 0; !stopped; at = (at + 65_536) % (2 * SIZE))
          await writer.write(at, Buffer.alloc(65_536, 100 + index)).catch(() => {
            stopped = true;
          });
      });
      await sleep(50 + 40 * round);
      const fresh = await publish("disk-2", two);
      const client = await NbdClient.connect({ socketPath: fresh.socketPath });
      const pattern = Buffer.alloc(2 * SIZE, round + 1);
      await client.write(0, pattern);
      await client.flush();
      await Promise.all(flood);
      await sleep(100);
      expect((await client.read(0, 2 * SIZE)).equals(pattern), `round ${round}`).to.equal(true);
      for (const writer of writers) await writer.disconnect();
      await client.disconnect();
    }
  });

  it("requests wait for a remote agent that is killed and started again, and nothing acknowledged is lost", async () => {
    const { socketPath } = await publish("disk-3", one, "b");
    const client = await NbdClient.connect({ socketPath });
    const before = Buffer.alloc(SIZE, 7);
    await client.write(SIZE, before);
    await two.process.kill();
    const after = Buffer.alloc(4096, 8);
    const writing = client.write(SIZE + 4096, after);
    const flushing = client.flush();
    const local = await client.read(0, 4096);
    expect(local.length).to.equal(4096);
    await two.process.start();
    await Promise.all([writing, flushing]);
    before.set(after, 4096);
    expect((await client.read(SIZE, SIZE)).equals(before)).to.equal(true);
    expect(readFileSync(join(folder, "host-2", "b")).equals(before)).to.equal(true);
    ordersTwo.client.close();
    ordersTwo = await ordersOf(two, registry.registrations.length - 1);
    await client.disconnect();
  });

  it("an agent that restarts serves its exports again, and reports them", async function () {
    leaveToVerify(this);
    const { socketPath, number } = await publish("disk-4", one, "b");
    const client = await NbdClient.connect({ socketPath });
    await client.write(SIZE - 10, Buffer.alloc(20, 4), { fua: true });
    const registrations = registry.registrations.length;
    await one.process.kill();
    await client.disconnect();
    await one.process.start();
    const again = await NbdClient.connect({ socketPath });
    expect((await again.read(SIZE - 10, 20)).equals(Buffer.alloc(20, 4))).to.equal(true);
    await again.disconnect();
    const { exports, devices } = await registry.registered("host-1", registrations);
    expect(exports).to.deep.include({ diskId: "disk-4", sessionNumber: number });
    expect(devices.find(({ deviceId }) => deviceId === "host-1-b")).to.include({
      sessionNumber: number,
      attached: true,
    });
    ordersOne.client.close();
    ordersOne = await ordersOf(one, registrations);
    await ordersOne.unexport("disk-4", number);
  });

  it("told to stop, it answers what is under way, removes its sockets, and exits with 0", async () => {
    const { socketPath } = await publish("disk-8", one, "b");
    const client = await NbdClient.connect({ socketPath });
    const registrations = registry.registrations.length;
    const write = client.write(0, Buffer.alloc(SIZE, 5), { fua: true }).then(
      () => "written",
      (error) => error.message,
    );
    await sleep(5);
    const began = performance.now();
    expect(await one.process.stop()).to.include({ code: 0 });
    expect(performance.now() - began).to.be.lessThan(30_000);
    expect(existsSync(socketPath)).to.equal(false);
    const bytes = readFileSync(join(folder, "host-1", "b"));
    if ((await write) === "written") expect(bytes.equals(Buffer.alloc(SIZE, 5))).to.equal(true);
    else expect(await write).to.match(/ended/);
    await one.process.start();
    await (await NbdClient.connect({ socketPath })).disconnect();
    ordersOne.client.close();
    ordersOne = await ordersOf(one, registrations);
  });

  it("an export of devices that are not granted, unknown or too small is refused", async () => {
    const extent = extentOn(one, "a");
    session += 2;
    const nameOf = (promise: Promise<unknown>) =>
      promise.then(
        () => "served",
        (error) => error.name,
      );
    expect(await nameOf(ordersOne.export("disk-5", session, [extent]))).to.equal("UnavailableError");
    expect(await nameOf(ordersOne.export("disk-5", session, [{ ...extent, deviceId: "nobody" }]))).to.equal(
      "NotFoundError",
    );
    await ordersOne.openSession(["host-1-a"], session, "disk-5", "host-1");
    expect(await nameOf(ordersOne.export("disk-5", session, [{ ...extent, sizeBytes: SIZE + 1 }]))).to.equal(
      "InvalidArgumentError",
    );
    expect(await nameOf(ordersOne.export("../disk", session, [extent]))).to.equal("InvalidArgumentError");
    expect(await nameOf(ordersOne.export("disk-5", session, []))).to.equal("InvalidArgumentError");
    expect(await nameOf(ordersOne.export("disk-5", session, [extent]))).to.equal("served");
    await ordersOne.unexport("disk-5", session);
  });

  it("opens the session along with an export's begin and end, and serves nothing that a device refuses", async () => {
    const extents = [extentOn(one, "a"), extentOn(one, "b")];
    session += 1;
    const outcomesOf = ({ outcomes }: { outcomes: { deviceId: string; outcome: string }[] }) =>
      outcomes.map(({ deviceId, outcome }) => `${deviceId} ${outcome}`);
    const both = (outcome: string) =>
      ["host-1-a", "host-1-b"].map((deviceId) => `${deviceId} ORDER_OUTCOME_${outcome}`);
    const served = await ordersOne.exportAtOnce("disk-8", session, extents);
    expect(outcomesOf(served)).to.deep.equal(both("DONE"));
    const writer = await NbdClient.connect({ socketPath: served.exportPath });
    await writer.write(0, Buffer.alloc(4096, 8), { fua: true });
    const again = await ordersOne.exportAtOnce("disk-8", session, extents);
    expect(outcomesOf(again)).to.deep.equal(both("ALREADY"));
    expect(again.exportPath).to.equal(served.exportPath);

    const fence = session + 1;
    const ended = await ordersOne.unexportAtOnce("disk-8", fence, ["host-1-a", "host-1-b"]);
    expect(outcomesOf(ended)).to.deep.equal(both("DONE"));
    expect(existsSync(served.exportPath)).to.equal(false);
    expect(await ordersOne.openSession(["host-1-a"], session, "disk-8", "host-1")).to.deep.equal([
      "ORDER_OUTCOME_OUTDATED",
    ]);

    // One of the devices obeys a higher session already: the other one's grant serves nothing.
    session += 4;
    await ordersOne.openSession(["host-1-b"], session, "disk-9", "host-1");
    const refused = await ordersOne.exportAtOnce("disk-8", session - 1, extents);
    expect(outcomesOf(refused)).to.deep.equal(["host-1-a ORDER_OUTCOME_DONE", "host-1-b ORDER_OUTCOME_OUTDATED"]);
    expect(refused.exportPath).to.equal("");
    expect(existsSync(served.exportPath)).to.equal(false);
    const request = { diskId: "disk-8", sessionNumber: session + 1, extents };
    const stale = { ...request, bootId: "another start", stamp: registry.stamp(), blockSizeBytes: 4096 };
    await rejection(ordersOne.client.exportDisk({ ...stale, openDeviceIds: ["host-1-a"] }), OutdatedError);
    await rejection(ordersOne.unexportAtOnce("disk-8", session + 1, ["host-1-a", "host-1-a"]), InvalidArgumentError);
    expect(await ordersOne.openSession(["host-1-a"], session, "disk-8", "host-1")).to.deep.equal([DONE]);
    await ordersOne.unexport("disk-8", session);
  });

  it("erases a device and fences its writer off", async function () {
    leaveToVerify(this);
    const { socketPath } = await publish("disk-6", one);
    const client = await NbdClient.connect({ socketPath });
    await client.write(0, Buffer.alloc(SIZE, 9), { fua: true });
    session += 1;
    const request = { bootId: ordersOne.bootId, stamp: registry.stamp(), sessionNumber: session, deviceId: "host-1-a" };
    await eventually(async () => (await ordersOne.client.eraseDevice(request)).outcome?.outcome === DONE);
    expect(readFileSync(join(folder, "host-1", "a")).equals(Buffer.alloc(SIZE))).to.equal(true);
    expect(await client.write(0, Buffer.alloc(1, 1)).catch((error) => error.code)).to.equal("ESHUTDOWN");
    await client.disconnect();
  });

  describe("BlockIo", () => {
    type Request = PartialOf<typeof BlockIoRequest>;
    /** A holder's stream, as raw messages. */
    const stream = (as: string, deviceId = "host-1-b") => {
      const client = createClient(DiskAgentServiceDefinition, {
        address: one.address,
        tls: certs.files(as),
        serverRole: "disk-agent",
        defaultDeadlineMs: 60_000,
      });
      const requests = new AsyncQueue<Request>();
      const answers = client.blockIo(requests)[Symbol.asyncIterator]();
      return {
        send: (operationId: number, operation: Request["operation"]) => void requests.push({ operationId, operation }),
        open: (sessionNumber: number, diskId = "disk-7") =>
          void requests.push({
            operationId: 0,
            operation: { $case: "open", value: { diskId, deviceId, sessionNumber } },
          }),
        next: async (): Promise<BlockIoResponse> => {
          const { value, done } = await answers.next();
          if (done) throw new Error("the stream has ended");
          return value;
        },
        failure: () =>
          answers.next().then(
            (next) => (next.done ? "ended" : `answered ${next.value.errno}`),
            (error) => error.name,
          ),
        close: () => {
          requests.end();
          client.close();
        },
      };
    };

    const openFor = async (holder: string) => {
      session += 1;
      await ordersOne.openSession(["host-1-b"], session, "disk-7", holder);
      return session;
    };

    it("is for the session's holder and disk alone", async () => {
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
      io.send(3, { $case: "read", value: { offsetBytes: SIZE, lengthBytes: 1 } });
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
        readFileSync(join(folder, "host-1", "b"))
          .subarray(0, 5)
          .toString(),
      ).to.equal("hello");
      io.close();
    });

    it("a second stream of the same session ends the first", async () => {
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

    it("I/O on a detached device fails as retriable, and works after it is attached again", async function () {
      leaveToVerify(this);
      const number = await openFor("host-2");
      const io = stream("disk-agent-host-2");
      io.open(number);
      await io.next();
      expect(await ordersOne.detach("host-1-b")).to.equal(DONE);
      io.send(1, { $case: "read", value: { offsetBytes: 0, lengthBytes: 1 } });
      expect(await io.failure()).to.equal("UnavailableError");
      io.close();
      expect(await ordersOne.attach("host-1-b")).to.equal(DONE);
      const again = stream("disk-agent-host-2");
      again.open(number);
      expect(await again.next()).to.include({ errno: "" });
      again.close();
    });
  });
});
