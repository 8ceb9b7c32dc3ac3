import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { InvalidArgumentError, OutdatedError, parseHostPort } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { ConnectionEndedError } from "../nbd/byte-reader.js";
import { NbdClient, type NbdRequestError } from "../nbd/client.js";
import { UnknownIdentityError } from "../nbd/tls.js";
import { DONE } from "../testing/agent-scene.js";
import { keyOf } from "../testing/test-registry.js";
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
    expect(exports).to.deep.include({ diskId: "disk-4", sessionNumber: number, wentOn: false });
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
    const ended = await agents.ordersOne.unexport("disk-8", fence, { openDeviceIds: ["host-1-a", "host-1-b"] });
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
      agents.ordersOne.unexport("disk-8", agents.session + 1, { openDeviceIds: ["host-1-a", "host-1-a"] }),
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

  describe("devices of another host", () => {
    const openFor = async (holder: string) => {
      agents.session += 1;
      const [outcome] = await agents.ordersOne.sessionOutcomes(["host-1-b"], agents.session, "disk-7", holder);
      return { number: agents.session, blockAddress: outcome?.blockAddress ?? "" };
    };
    type Session = Awaited<ReturnType<typeof openFor>>;

    const connect = ({ number, blockAddress }: Session, change: { identity?: string; key?: Buffer } = {}) => {
      const { host, port } = parseHostPort("block_address", blockAddress);
      const target = { host, port, identity: `host-1-b/${number}`, key: keyOf(number), ...change };
      return NbdClient.connectOverTls(target, { signal: new AbortController().signal, silenceTimeoutMs: 60_000 });
    };

    it("are open to the key of their session and device only, and to nobody in a session without a holder elsewhere", async () => {
      const session = await openFor("host-2");
      const { number } = session;
      const client = await connect(session);
      await client.flush();
      const rows: readonly [string, Parameters<typeof connect>[1], boolean][] = [
        ["another key", { key: randomBytes(32) }, false],
        ["the key of the session before", { key: keyOf(number - 1) }, false],
        ["the session before", { identity: `host-1-b/${number - 1}`, key: keyOf(number - 1) }, true],
        ["a later session", { identity: `host-1-b/${number + 1}`, key: keyOf(number + 1) }, false],
        ["another device", { identity: `host-1-nobody/${number}` }, true],
        ["a malformed identity", { identity: `../b/${number}` }, true],
        ["no session", { identity: "host-1-b/0" }, true],
      ];
      for (const [title, change, isUnknown] of rows) {
        const error = await rejection(connect(session, change));
        expect(error instanceof UnknownIdentityError, title).to.equal(isUnknown);
      }
      await client.flush();
      client.destroy();
      for (const holder of ["", "host-1"]) {
        const { number: closed, blockAddress } = await openFor(holder);
        expect(blockAddress, "no address is told").to.equal("");
        await rejection(connect({ ...session, number: closed }), UnknownIdentityError);
      }
    });

    it("keep the key and the port in the cache, for the agent's user alone, and out of the log", async () => {
      const session = await openFor("host-2");
      const cache = join(agents.one.baseFolder, "agent-cache.json");
      expect(statSync(cache).mode & 0o777).to.equal(0o600);
      const key = keyOf(session.number).toString("hex");
      const slots = readFileSync(cache, "utf8");
      expect(slots.replace(/\n.{24}/g, "")).to.include(key);
      expect(agents.one.process.logs).to.include("OpenSession").and.not.include(key);

      await agents.one.process.kill();
      const registrations = agents.registry.registrations.length;
      await agents.one.process.start();
      const client = await eventually(() => connect(session));
      await client.flush();
      client.destroy();
      agents.ordersOne.client.close();
      agents.ordersOne = await agents.ordersOf(agents.one, registrations);
    });

    it("are written by qemu-io with the key, which fails in the handshake once a later session is opened", async function () {
      const session = await openFor("host-2");
      const { port } = parseHostPort("block_address", session.blockAddress);
      const folder = temporaryFolder();
      const qemuIo = ({ number }: Pick<Session, "number">, ...commands: string[]) => {
        const identity = `host-1-b/${number}`;
        writeFileSync(join(folder, "keys.psk"), `${identity}:${keyOf(number).toString("hex")}\n`, { mode: 0o600 });
        return spawnSync(
          "qemu-io",
          [
            ...["--object", `tls-creds-psk,id=psk,endpoint=client,dir=${folder},username=${identity}`],
            ...commands.flatMap((command) => ["-c", command]),
            ...["--image-opts", `driver=nbd,host=127.0.0.1,port=${port},tls-creds=psk`],
          ],
          { encoding: "utf8" },
        );
      };
      const written = qemuIo(session, "write -f -P 0x5a 0 64k", "read -P 0x5a 0 64k");
      if (written.error) return skipBecause(this, "qemu-io is not installed");
      expect(written, written.stdout + written.stderr).to.include({ status: 0, stderr: "" });
      const stored = () => readFileSync(join(agents.folder, "host-1", "b")).subarray(0, 65_536);
      expect(stored().equals(Buffer.alloc(65_536, 0x5a))).to.equal(true);
      const later = await openFor("host-2");
      expect(qemuIo(session, "write -P 0x11 0 64k").stderr).to.match(/TLS handshake failed/);
      expect(stored().equals(Buffer.alloc(65_536, 0x5a))).to.equal(true);
      expect(qemuIo(later, "write -P 0x22 0 64k").status).to.equal(0);
      expect(stored().equals(Buffer.alloc(65_536, 0x22))).to.equal(true);
    });

    it("are not opened for another host without a key of 32 bytes", async () => {
      agents.session += 1;
      for (const sizeBytes of [0, 31, 33]) {
        const key = Buffer.alloc(sizeBytes, 1);
        const opened = agents.ordersOne.sessionOutcomes(["host-1-b"], agents.session, "disk-7", "host-2", key);
        await rejection(opened, InvalidArgumentError, `session_key has ${sizeBytes} bytes`);
      }
    });

    it("answer requests in any order, name errors, and end with ESHUTDOWN when superseded", async () => {
      const client = await connect(await openFor("host-2"));
      await client.write(0, Buffer.from("hello"), { fua: true });
      expect((await client.read(0, 5)).toString()).to.equal("hello");
      const codeOf = (request: Promise<unknown>) =>
        request.then(
          () => "done",
          (error: NbdRequestError) => error.code,
        );
      expect(await codeOf(client.read(SIZE_BYTES, 1))).to.equal("EINVAL");
      expect(await codeOf(client.trim(SIZE_BYTES, 1))).to.equal("EINVAL");
      await Promise.all(Array.from({ length: 30 }, (_, at) => client.read(at, 4096)));
      await openFor("");
      expect(await codeOf(client.write(0, Buffer.from("late!")))).to.equal("ESHUTDOWN");
      const stored = readFileSync(join(agents.folder, "host-1", "b"))
        .subarray(0, 5)
        .toString();
      expect(stored).to.equal("hello");
      client.destroy();
    });

    it("end a connection when a second one of its session begins", async () => {
      const session = await openFor("host-2");
      const first = await connect(session);
      const second = await connect(session);
      await first.ended;
      await second.flush();
      second.destroy();
    });

    it("end the connection when detached, and serve again after they are attached", async function () {
      leaveToVerify(this);
      const session = await openFor("host-2");
      const client = await connect(session);
      expect(await agents.ordersOne.detach("host-1-b")).to.equal(DONE);
      await rejection(client.read(0, 1), ConnectionEndedError);
      await rejection(connect(session));
      expect(await agents.ordersOne.attach("host-1-b")).to.equal(DONE);
      const again = await connect(session);
      await again.flush();
      again.destroy();
    });
  });
});
