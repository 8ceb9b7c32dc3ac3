import { existsSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { systemClock } from "@diskmesh/service";
import { eventually, Gate } from "@diskmesh/testkit";
import { expect } from "chai";
import { BlockDevices } from "../engines/block-devices.js";
import { NodeEngine } from "../engines/node-engine.js";
import type { ExportSpec } from "../model/memory.js";
import { NbdClient } from "../nbd/client.js";
import { type ListenNbd, NbdServer } from "../nbd/server.js";
import { openPart } from "../parts/open-part.js";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";
import { ExportTable } from "./export-table.js";

const SIZE_BYTES = 8_192;
const diskId = "disk-1" as DiskId;

describe("the table of exports", () => {
  it("lists an export that is remembered and not served as about to be, until it is ended", async () => {
    const fixture = new DeviceFixture([{ id: "a", file: "a" }]);
    const exports = exportsIn(fixture);
    const spec = specOf(7, "host-1");
    exports.intend(spec);
    expect(exports.list()).to.deep.equal([{ diskId, sessionNumber: 7 }]);
    // The device has no open session.
    await rejection(exports.serve(spec));
    expect(exports.list()).to.deep.equal([{ diskId, sessionNumber: 7 }]);
    await exports.end(diskId, 6);
    expect(exports.list()).to.deep.equal([{ diskId, sessionNumber: 7 }]);
    await exports.end(diskId, 8);
    expect(exports.list()).to.deep.equal([]);
    await exports.close();
    await fixture.stop();
  });

  it("finds a disk between two sessions once the later one serves, and not after the last one", async () => {
    const draining = new Gate();
    const fixture = new DeviceFixture([]);
    const exports = exportsIn(fixture, async () => ({
      close: () => draining.pass(),
      hasSocket: async () => true,
      restore: async () => false,
    }));
    const socketPath = await exports.serve(specOf(7, "host-2"));
    const next = exports.serve(specOf(8, "host-2"));
    await draining.reached;
    expect(exports.find(diskId)).to.equal(undefined);
    const found = exports.findSettled(diskId);
    draining.release();
    expect(await found).to.equal(socketPath);
    await next;
    const ending = exports.end(diskId, 8);
    expect(await exports.findSettled(diskId)).to.equal(undefined);
    await ending;
    await fixture.stop();
  });

  it("restores a removed socket on the same order, or a check, and keeps connections", async () => {
    const fixture = new DeviceFixture([{ id: "a", file: "a" }]);
    const exports = exportsIn(fixture);
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 7);
    const socketPath = await exports.serve(specOf(7, "host-1"));
    const before = await NbdClient.connect({ socketPath });
    rmSync(socketPath);
    expect(await exports.serve(specOf(7, "host-1"))).to.equal(socketPath);
    expect(exports.problems()).to.deep.equal([]);
    const after = await NbdClient.connect({ socketPath });
    await before.write(0, Buffer.alloc(4_096, 7));
    expect(await after.read(0, 4_096)).to.deep.equal(Buffer.alloc(4_096, 7));
    renameSync(dirname(socketPath), `${dirname(socketPath)}.away`);
    await exports.lookAtSockets();
    expect(exports.problems()[0]?.message).to.match(
      /its socket is gone, and cannot be made again \(put its folder back/,
    );
    renameSync(`${dirname(socketPath)}.away`, dirname(socketPath));
    rmSync(socketPath, { force: true });
    await exports.lookAtSockets();
    expect(exports.problems()).to.deep.equal([]);
    await (await NbdClient.connect({ socketPath })).disconnect();
    await exports.end(diskId, 7);
    expect(existsSync(socketPath)).to.equal(false);
    await exports.lookAtSockets();
    expect(existsSync(socketPath)).to.equal(false);
    for (const client of [before, after]) expect((await rejection(client.flush())).message).to.match(/ended/);
    await exports.close();
    await fixture.stop();
  });

  it("starts the exports behind one that hangs, and waits for none of them for long", async () => {
    const fixture = new DeviceFixture([]);
    const [hung, other] = [diskId, "disk-2" as DiskId];
    const before = exportsIn(fixture, async () => ({
      close: async () => {},
      hasSocket: async () => true,
      restore: async () => false,
    }));
    for (const id of [hung, other]) await before.serve({ ...specOf(7, "host-2"), diskId: id });
    await before.close();
    const begun = new Gate();
    const after = exportsIn(fixture, async ({ served: { name } }) => {
      if (name === hung) await begun.pass();
      return { close: async () => {}, hasSocket: async () => true, restore: async () => false };
    });
    await after.start(1);
    await eventually(() => expect(after.find(other)).to.not.equal(undefined));
    expect(after.find(hung)).to.equal(undefined);
    begun.release();
    await eventually(() => expect(after.find(hung)).to.not.equal(undefined));
    await after.close();
    await fixture.stop();
  });

  it("restores the sockets of other disks when one cannot be restored", async () => {
    const fixture = new DeviceFixture([]);
    const restored: string[] = [];
    const exports = exportsIn(fixture, async ({ served: { name } }) => ({
      close: async () => {},
      hasSocket: async () => false,
      restore: async () => {
        if (name === diskId) throw new Error("no room");
        restored.push(name);
        return true;
      },
    }));
    const other = "disk-2" as DiskId;
    for (const id of [diskId, other]) await exports.serve({ ...specOf(7, "host-2"), diskId: id });
    await exports.lookAtSockets();
    expect(restored).to.deep.equal([other]);
    await exports.close();
    await fixture.stop();
  });
});

/** Reaches a device of another host, which nobody connects to. */
const REACH = { blockAddress: "127.0.0.1:1", sessionKey: "00" };

function specOf(sessionNumber: number, hostId: string): ExportSpec {
  const access = hostId === "host-1" ? { blockAddress: "", sessionKey: "" } : REACH;
  const extent = { hostId: hostId as HostId, deviceId: "a" as DeviceId, sizeBytes: SIZE_BYTES, ...access };
  return { diskId, sessionNumber, blockSizeBytes: 4_096, extents: [extent] };
}

function exportsIn({ folder, ledger, devices }: DeviceFixture, listenNbd: ListenNbd = NbdServer.listen): ExportTable {
  makeDeviceFile(folder, "a", SIZE_BYTES);
  const unused = () => Promise.reject(new Error("nobody reads or writes"));
  const hostId = "host-1" as HostId;
  const openRemotePart = () => ({ read: unused, write: unused, clear: unused, flush: unused, close() {} });
  const node = new NodeEngine({
    folder,
    openPart: openPart({ hostId, devices, openRemotePart, clock: systemClock, ioTimeoutMs: 1_000 }),
    listenNbd,
    limits: {
      maxConnections: 3,
      maxInFlightRequests: 1,
      maxInFlightBytes: SIZE_BYTES,
      negotiationTimeoutMs: 1_000,
      drainTimeoutMs: 1_000,
      mirror: {
        copy: { chunkBytes: SIZE_BYTES, maxInFlight: 1, flushEveryBytes: SIZE_BYTES },
        targetTimeoutMs: 1_000,
        heldTimeoutMs: 1_000,
      },
    },
    clock: systemClock,
    log: silentLogger,
  });
  const common = { ledger, devices, clock: systemClock, log: silentLogger };
  const host = { ...common, hostId: "host-1" as HostId, folder, whyNot: "no test needs one" };
  return new ExportTable({ ...common, engines: [node], blockDevices: new BlockDevices(host), maxEndedExports: 10 });
}
