import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { DeviceIoError, OutdatedError, silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { systemClock } from "@diskmesh/service";
import { eventually, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { WHOLE_DEVICE } from "../model/runs.js";
import type { DiskPart } from "../parts/disk-part.js";
import { LinearDisk } from "../parts/linear-disk.js";
import { LocalPart } from "../parts/local-part.js";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";
import { ByteReader } from "./byte-reader.js";
import { NbdClient, type NbdRequestError } from "./client.js";
import * as nbd from "./protocol.js";
import { NbdServer } from "./server.js";

const run = promisify(execFile);
const DEVICE_BYTES = 4 * 1024 * 1024;
const DISK_BYTES = 2 * DEVICE_BYTES;
const LIMITS = {
  maxConnections: 4,
  maxInFlightRequests: 8,
  maxInFlightBytes: 8 * 1024 * 1024,
  negotiationTimeoutMs: 60_000,
};

describe("the NBD export", () => {
  let fixture: DeviceFixture;
  let disk: LinearDisk;
  let server: NbdServer;
  let socketPath: string;

  beforeEach(async () => {
    fixture = new DeviceFixture([
      { id: "a", file: "a" },
      { id: "b", file: "b" },
    ]);
    for (const id of ["a", "b"]) {
      makeDeviceFile(fixture.folder, id, DEVICE_BYTES);
      await fixture.order("attach", id, id === "a" ? 1 : 2);
      await fixture.openSession(id, 1);
    }
    const waiting = { devices: fixture.devices, clock: systemClock, timeoutMs: 0 };
    const parts = ["a", "b"].map(
      (id) => new LocalPart(fixture.device(id), { sessionNumber: 1, offsetBytes: 0 }, waiting),
    );
    disk = new LinearDisk(parts.map((part) => Object.assign(part, { sizeBytes: DEVICE_BYTES })));
    // Longer than the 107 bytes of a Unix socket's path, and with a space.
    const folder = join(fixture.folder, "deep folder ".repeat(12).trim());
    mkdirSync(folder);
    socketPath = join(folder, "disk-1.sock");
    server = await serve(disk);
  });

  afterEach(async () => {
    fixture.files.writes.open();
    await server.close(500);
    await fixture.stop();
  });

  const serve = (part: DiskPart, at = { socketPath, limits: LIMITS }, isReadOnly = false) => {
    const served = { name: "disk-1", sizeBytes: DISK_BYTES, blockSizeBytes: 4096, isReadOnly };
    return NbdServer.listen({ ...at, served, disk: part, log: silentLogger });
  };

  it("read-only -> says so, reads and flushes, and refuses every change with EPERM", async () => {
    await server.close(500);
    fixture.files.writes.open();
    server = await serve(disk, { socketPath, limits: LIMITS }, true);
    const client = await NbdClient.connect({ socketPath });
    expect(client.isReadOnly).to.equal(true);
    const codeOf = async (refused: Promise<unknown>) => ((await rejection(refused)) as NbdRequestError).code;
    expect(await codeOf(client.write(0, Buffer.alloc(4_096, 1)))).to.equal("EPERM");
    expect(await codeOf(client.trim(0, 4_096))).to.equal("EPERM");
    expect(await codeOf(client.writeZeroes(0, 4_096))).to.equal("EPERM");
    expect(await client.read(0, 4_096)).to.deep.equal(Buffer.alloc(4_096));
    await client.flush();
    await client.disconnect();
  });

  /** Returns a short path to the socket, for clients without support for long ones. */
  const shortPath = () => {
    const link = join(fixture.folder, "s");
    if (!existsSync(link)) symlinkSync(join(socketPath, ".."), link);
    return join(link, "disk-1.sock");
  };

  const uri = () => `nbd+unix:///disk-1?socket=${shortPath()}`;

  it("reads back what was written, across devices, on several connections at once", async () => {
    const [one, two] = await Promise.all([NbdClient.connect({ socketPath }), NbdClient.connect({ socketPath })]);
    expect(one.sizeBytes).to.equal(DISK_BYTES);
    const data = randomBytes(DISK_BYTES);
    const chunk = 96 * 1024 + 1;
    const writes: Promise<void>[] = [];
    for (let at = 0; at < DISK_BYTES; at += chunk)
      writes.push((at % 2 ? one : two).write(at, data.subarray(at, at + chunk), { fua: at % 3 === 0 }));
    await Promise.all(writes);
    await one.flush();
    expect((await two.read(0, DISK_BYTES)).equals(data)).to.equal(true);
    const files = ["a", "b"].map((id) => readFileSync(join(fixture.folder, id)));
    expect(Buffer.concat(files).equals(data)).to.equal(true);
    await Promise.all([one.disconnect(), two.disconnect()]);
  });

  it("syncs every device on FLUSH, and the written ones on FUA", async () => {
    const client = await NbdClient.connect({ socketPath });
    await client.write(0, Buffer.alloc(1));
    expect(fixture.files.syncCount).to.equal(0);
    await client.write(0, Buffer.alloc(1), { fua: true });
    expect(fixture.files.syncCount).to.equal(1);
    await client.flush();
    expect(fixture.files.syncCount).to.equal(3);
    await client.disconnect();
  });

  it("is accessible to the agent's user only, and replaces the socket of a killed agent", async () => {
    expect(statSync(socketPath).mode & 0o777).to.equal(0o600);
    // Simulates a kill, which leaves the socket in place.
    renameSync(socketPath, `${socketPath}.aside`);
    await server.close(500);
    expect(existsSync(socketPath)).to.equal(false);
    renameSync(`${socketPath}.aside`, socketPath);
    server = await serve(disk);
    await (await NbdClient.connect({ socketPath })).disconnect();
  });

  /** Returns the space that the device files take. */
  const usedBytes = () => {
    const files = ["a", "b"].map((id) => statSync(join(fixture.folder, id)));
    return files.reduce((sum, { blocks }) => sum + blocks * 512, 0);
  };

  it("frees the space of trimmed and zeroed bytes, across devices", async () => {
    const client = await NbdClient.connect({ socketPath });
    const data = randomBytes(DISK_BYTES);
    for (const clear of [client.trim.bind(client), client.writeZeroes.bind(client)]) {
      await client.write(0, data);
      await client.flush();
      const usedBefore = usedBytes();
      await clear(DEVICE_BYTES - 65_536, 131_072);
      const expected = Buffer.from(data);
      expected.fill(0, DEVICE_BYTES - 65_536, DEVICE_BYTES + 65_536);
      expect((await client.read(0, DISK_BYTES)).equals(expected)).to.equal(true);
      expect(usedBefore - usedBytes()).to.equal(131_072);
    }
    await client.disconnect();
  });

  it("keeps the space of bytes that are zeroed with NO_HOLE", async () => {
    const client = await NbdClient.connect({ socketPath });
    await client.write(0, randomBytes(DISK_BYTES));
    const usedBefore = usedBytes();
    await client.writeZeroes(10, DISK_BYTES - 20, { noHole: true });
    const read = await client.read(10, DISK_BYTES - 20);
    expect(read.equals(Buffer.alloc(DISK_BYTES - 20))).to.equal(true);
    expect(usedBytes()).to.equal(usedBefore);
    await client.disconnect();
  });

  it("zeroes bytes, and leaves trimmed ones, where the file system cannot free space", async () => {
    fixture.files.canPunchHoles = false;
    const client = await NbdClient.connect({ socketPath });
    const data = randomBytes(8192);
    await client.write(0, data);
    await client.trim(0, 4096);
    await client.writeZeroes(4096, 2048);
    data.fill(0, 4096, 6144);
    expect((await client.read(0, 8192)).equals(data)).to.equal(true);
    await client.disconnect();
  });

  it("keeps a higher session waiting for a trim that is in flight", async () => {
    const client = await NbdClient.connect({ socketPath });
    fixture.files.writes.shut();
    const trimming = client.trim(0, 4096);
    await eventually(() => expect(fixture.device("a").inFlight).to.equal(1));
    expect(fixture.device("a").isQuietBelow(2, WHOLE_DEVICE)).to.equal(false);
    fixture.files.writes.open();
    await trimming;
    expect(fixture.device("a").isQuietBelow(2, WHOLE_DEVICE)).to.equal(true);
    await client.disconnect();
  });

  it("returns the NBD error of each failure", async () => {
    const client = await NbdClient.connect({ socketPath });
    const codeOf = (promise: Promise<unknown>) =>
      promise.then(
        () => "none",
        (error) => error.code,
      );
    expect(await codeOf(client.read(DISK_BYTES, 1))).to.equal("EINVAL");
    expect(await codeOf(client.write(DISK_BYTES - 1, Buffer.alloc(2)))).to.equal("ENOSPC");
    expect(await codeOf(client.trim(DISK_BYTES, 1))).to.equal("EINVAL");
    expect(await codeOf(client.writeZeroes(1, DISK_BYTES))).to.equal("ENOSPC");
    await fixture.openSession("b", 2);
    expect(await codeOf(client.write(DEVICE_BYTES, Buffer.alloc(1)))).to.equal("ESHUTDOWN");
    expect(await codeOf(client.trim(DEVICE_BYTES, 1))).to.equal("ESHUTDOWN");
    expect(await codeOf(client.writeZeroes(DEVICE_BYTES, 1))).to.equal("ESHUTDOWN");
    expect(await codeOf(client.write(DEVICE_BYTES - 1, Buffer.alloc(2)))).to.equal("ESHUTDOWN");
    expect(await codeOf(client.read(0, 1))).to.equal("none");
    await fixture.order("detach", "a", 3);
    expect(await codeOf(client.read(0, 1))).to.equal("EIO");
    await client.disconnect();
  });

  it("maps a disk's errors", async () => {
    const full = Object.assign(new Error("no space"), { code: "ENOSPC" });
    for (const [error, code] of [
      [new DeviceIoError("x"), "EIO"],
      [new DeviceIoError("x", { cause: full }), "ENOSPC"],
      [new OutdatedError("x"), "ESHUTDOWN"],
      [new TypeError("a bug"), "EIO"],
    ] as const) {
      await server.close(500);
      const fail = () => Promise.reject(error);
      server = await serve({ read: fail, write: fail, clear: fail, flush: fail, close: () => {} });
      const client = await NbdClient.connect({ socketPath });
      expect(await client.flush().catch((thrown) => thrown.code)).to.equal(code);
      await client.disconnect();
    }
  });

  it("refuses an export of another name", async () => {
    expect(await NbdClient.connect({ socketPath, exportName: "disk-2" }).catch((error) => error.message)).to.match(
      /disk-1 alone/,
    );
  });

  describe("malformed input closes only its connection", () => {
    let good: NbdClient;

    beforeEach(async () => {
      good = await NbdClient.connect({ socketPath });
    });

    afterEach(async () => {
      await good.write(0, Buffer.from("still here"));
      await good.disconnect();
    });

    const raw = async (path = shortPath()) => {
      const socket = createConnection(path);
      socket.on("error", () => {});
      const reader = new ByteReader(socket);
      await reader.read(18);
      return { socket, reader };
    };

    const closed = (socket: Socket) => eventually(() => socket.destroyed || socket.readableEnded);

    const flags = (value: number) => {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(value, 0);
      return bytes;
    };

    const go = async ({ socket, reader }: Awaited<ReturnType<typeof raw>>) => {
      socket.write(Buffer.concat([flags(3), nbd.encodeOption(nbd.OPTION.GO, nbd.encodeInfoRequest("", []))]));
      for (;;) {
        const { reply, lengthBytes } = nbd.decodeOptionReplyHeader(await reader.read(20));
        await reader.read(lengthBytes);
        if (reply === nbd.REPLY.ACK) return;
      }
    };

    const request = (change: object) =>
      nbd.encodeRequest({ flags: 0, command: 0, cookie: 7n, offsetBytes: 0n, lengthBytes: 1, ...change });

    const beforeTransmission: [string, Buffer][] = [
      ["unknown client flags", flags(0xffff)],
      ["an option without its magic number", Buffer.concat([flags(3), Buffer.alloc(16, 0xee)])],
      ["an option longer than allowed", Buffer.concat([flags(3), nbd.encodeOption(99, Buffer.alloc(9000))])],
      ["EXPORT_NAME of another export", Buffer.concat([flags(3), nbd.encodeOption(1, Buffer.from("other"))])],
      ["HTTP", Buffer.from("GET / HTTP/1.1\r\n\r\n")],
    ];
    for (const [title, bytes] of beforeTransmission)
      it(title, async () => {
        const { socket, reader } = await raw();
        socket.write(bytes);
        const drained = reader.read(1).catch(() => undefined);
        await closed(socket);
        await drained;
        socket.destroy();
      });

    it("silence during negotiation", async () => {
      const path = join(fixture.folder, "hasty.sock");
      const hasty = await serve(disk, { socketPath: path, limits: { ...LIMITS, negotiationTimeoutMs: 1_000 } });
      const { socket, reader } = await raw(path);
      const drained = reader.read(1).catch(() => undefined);
      await closed(socket);
      await drained;
      await hasty.close(500);
    });

    const inTransmission: [string, Buffer][] = [
      ["a request without its magic number", Buffer.alloc(28, 0xee)],
      ["a write above 32 MiB", request({ command: nbd.COMMAND.WRITE, lengthBytes: 32 * 1024 * 1024 + 1 })],
    ];
    for (const [title, bytes] of inTransmission)
      it(title, async () => {
        const connection = await raw();
        await go(connection);
        connection.socket.write(bytes);
        const drained = connection.reader.read(1).catch(() => undefined);
        await closed(connection.socket);
        await drained;
        connection.socket.destroy();
      });

    it("answers unknown options, commands and flags, and a read that is too long", async () => {
      const connection = await raw();
      const { socket, reader } = connection;
      socket.write(
        Buffer.concat([
          flags(3),
          nbd.encodeOption(8, Buffer.alloc(0)),
          nbd.encodeOption(nbd.OPTION.INFO, Buffer.alloc(3)),
        ]),
      );
      for (const expected of [nbd.REPLY.ERR_UNSUP, nbd.REPLY.ERR_INVALID]) {
        const { reply, lengthBytes } = nbd.decodeOptionReplyHeader(await reader.read(20));
        await reader.read(lengthBytes);
        expect(reply).to.equal(expected);
      }
      socket.write(nbd.encodeOption(nbd.OPTION.GO, nbd.encodeInfoRequest("", [])));
      for (let reply: number = nbd.REPLY.INFO; reply !== nbd.REPLY.ACK; ) {
        const header = nbd.decodeOptionReplyHeader(await reader.read(20));
        await reader.read(header.lengthBytes);
        reply = header.reply;
      }
      for (const [change, error] of [
        [{ command: 5 }, nbd.NBD_ERROR.EINVAL],
        [{ command: nbd.COMMAND.TRIM, flags: nbd.COMMAND_FLAG.NO_HOLE }, nbd.NBD_ERROR.EINVAL],
        [{ flags: 1 << 7 }, nbd.NBD_ERROR.EINVAL],
        [{ lengthBytes: 0xffff_ffff }, nbd.NBD_ERROR.EOVERFLOW],
        [{ offsetBytes: 2n ** 64n - 1n }, nbd.NBD_ERROR.EINVAL],
      ] as const) {
        socket.write(request(change));
        expect(nbd.decodeSimpleReply(await reader.read(16))).to.deep.equal({ cookie: 7n, error });
      }
      socket.destroy();
    });

    it("changes nothing when a client vanishes during a write", async () => {
      const connection = await raw();
      await go(connection);
      connection.socket.write(request({ command: nbd.COMMAND.WRITE, lengthBytes: 4096 }));
      connection.socket.write(Buffer.alloc(4095, 9));
      await new Promise((resolve) => setTimeout(resolve, 50));
      connection.socket.destroy();
      expect((await good.read(1024, 1024)).equals(Buffer.alloc(1024))).to.equal(true);
    });
  });

  it("refuses connections above the maximum", async () => {
    const clients = await Promise.all(Array.from({ length: 4 }, () => NbdClient.connect({ socketPath })));
    expect(await NbdClient.connect({ socketPath }).catch(() => "refused")).to.equal("refused");
    await Promise.all(clients.map((client) => client.disconnect()));
    await eventually(async () => (await NbdClient.connect({ socketPath })).disconnect());
  });

  it("answers running requests at a close, and disconnects after the timeout", async () => {
    const client = await NbdClient.connect({ socketPath });
    fixture.files.writes.shut();
    const write = client.write(0, Buffer.alloc(4096, 5));
    await eventually(() => fixture.files.writes.arrivals === 1);
    const closing = server.close(5_000);
    fixture.files.writes.open();
    await Promise.all([write, closing]);
    server = await serve(disk);
    const second = await NbdClient.connect({ socketPath });
    fixture.files.writes.shut();
    const stuck = second.write(0, Buffer.alloc(4096, 6)).catch((error) => error.message);
    await eventually(() => fixture.files.writes.arrivals === 2);
    await server.close(50);
    expect(await stuck).to.match(/ended/);
    fixture.files.writes.open();
    server = await serve(disk);
  });

  /** Runs a third-party client. Skips the test, and names the client, when it is not installed. */
  const tool = async (context: Mocha.Context, name: string, args: string[]): Promise<string> => {
    try {
      return (await run(name, args)).stdout;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") skipBecause(context, `${name} is not installed`);
      throw error;
    }
  };

  it("nbdinfo reads the size, the flags and the name", async function () {
    const info = JSON.parse(await tool(this, "nbdinfo", ["--json", uri()]));
    const [served] = info.exports;
    expect(info.protocol).to.equal("newstyle-fixed");
    expect(served["export-size"]).to.equal(DISK_BYTES);
    expect(served).to.include({
      can_flush: true,
      can_fua: true,
      can_multi_conn: true,
      can_trim: true,
      can_zero: true,
      is_read_only: false,
    });
    const listed = JSON.parse(await tool(this, "nbdinfo", ["--json", "--list", uri()]));
    expect(listed.exports.map((one: { "export-name": string }) => one["export-name"])).to.deep.equal(["disk-1"]);
  });

  it("nbdcopy copies in and out over several connections", async function () {
    const [source, target] = [join(fixture.folder, "in"), join(fixture.folder, "out")];
    writeFileSync(source, randomBytes(DISK_BYTES));
    await tool(this, "nbdcopy", ["--connections=4", "--flush", source, uri()]);
    await tool(this, "nbdcopy", ["--connections=4", uri(), target]);
    expect(readFileSync(source).equals(readFileSync(target))).to.equal(true);
  });

  it("qemu-img reads the size, and compares equal what it converted", async function () {
    const source = join(fixture.folder, "in");
    writeFileSync(source, randomBytes(DISK_BYTES));
    const info = JSON.parse(await tool(this, "qemu-img", ["info", "--output=json", "-f", "raw", uri()]));
    expect(info["virtual-size"]).to.equal(DISK_BYTES);
    await tool(this, "qemu-img", ["convert", "-n", "-f", "raw", "-O", "raw", source, uri()]);
    const compared = await tool(this, "qemu-img", ["compare", "-f", "raw", "-F", "raw", source, uri()]);
    expect(compared).to.match(/identical/);
  });

  it("qemu-io writes, flushes, reads and verifies patterns, also unaligned and with FUA", async function () {
    const commands = [
      "write -P 0x5a 0 1M",
      "write -f -P 0x33 4190208 8192",
      "write -P 0x77 2M 64k",
      "write -z 2M 4k",
      "discard 2101248 4k",
      "aio_flush",
      "read -P 0x5a 0 1M",
      "read -P 0x33 4190208 8192",
      "read -P 0 2M 8k",
      "read -P 0x77 2105344 56k",
    ];
    const output = await tool(this, "qemu-io", ["-f", "raw", ...commands.flatMap((command) => ["-c", command]), uri()]);
    expect(output).not.to.match(/fail|error/i);
    expect(output.match(/read \d+\/\d+ bytes/g)).to.have.length(4);
    const wrong = await tool(this, "qemu-io", ["-f", "raw", "-c", "read -P 0x01 0 4096", uri()]).catch(
      (error) => error.stdout,
    );
    expect(wrong, "a pattern that is not there").to.match(/Pattern verification failed/);
  });
});
