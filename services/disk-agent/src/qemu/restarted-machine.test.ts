import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type DeviceId, type DiskId, type HostId, silentLogger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/service";
import { eventually, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import type { ServedDisk } from "../exports/engine.js";
import { NbdClient } from "../nbd/client.js";
import { DeviceAccess } from "../remote/device-access.js";
import { type LinkDevice, linkOverNbd } from "../remote/device-link.js";
import type { DeviceListener } from "../remote/device-listener.js";
import { CuttableProxy } from "../testing/cuttable-proxy.js";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";
import { ENGINE_LIMITS } from "../testing/engine-scene.js";
import { listenForHolders } from "../testing/listen-for-holders.js";
import { QemuEngine } from "./qemu-engine.js";

const SIZE_BYTES = 64 * 4096;
const BLOCK = Buffer.alloc(4096, 7);

describe("a storage daemon and the machine of its device", () => {
  let fixture: DeviceFixture;
  let listener: DeviceListener;
  let proxy: CuttableProxy;
  let machineBootId: string;
  let disk: ServedDisk;
  let lost: string | undefined;
  /** Number of answers about the machine's boot id. */
  let answers: number;

  beforeEach(async function () {
    skipWithout(this, "qemu-storage-daemon");
    machineBootId = "machine-1";
    lost = undefined;
    answers = 0;
    const sessionKey = randomBytes(32).toString("hex");
    fixture = new DeviceFixture([{ id: "a", file: "a" }]);
    makeDeviceFile(fixture.folder, "a", SIZE_BYTES);
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 1, "host-2", sessionKey);
    const { devices, ledger } = fixture;
    const access = () => new DeviceAccess({ devices, ledger, machineBootId, takeOverTimeoutMs: 1_000 });
    listener = await listenForHolders(access, SIZE_BYTES);
    proxy = await CuttableProxy.start(listener.port);
    const folder = join(fixture.folder, "exports");
    mkdirSync(folder);
    const linkDevice: LinkDevice = async (...to) => {
      const link = await linkOverNbd(...to);
      answers += 1;
      return link;
    };
    const holder = { hostId: "host-2" as HostId, devices, linkDevice, log: silentLogger };
    const openRemotePart = () => expect.fail("no part moves");
    const moves = { openRemotePart, limits: ENGINE_LIMITS, clock: systemClock };
    const engine = new QemuEngine({ ...holder, ...moves, folder, remoteIoTimeoutMs: 1_000 });
    const blockAddress = `127.0.0.1:${proxy.port}`;
    const extent = { deviceId: "a" as DeviceId, hostId: "host-1" as HostId, sizeBytes: SIZE_BYTES };
    const extents = [{ ...extent, blockAddress, sessionKey }];
    disk = await engine.serve({ diskId: "disk-1" as DiskId, sessionNumber: 1, blockSizeBytes: 4096, extents });
    void disk.lost?.then((reason) => {
      lost = reason;
    });
  });

  afterEach(async () => {
    await disk?.end();
    await proxy?.close();
    await listener?.close();
    await fixture?.stop();
  });

  const client = () => NbdClient.connect({ socketPath: disk.path });

  it("is lost once the machine has restarted, because a flush would not cover lost writes", async () => {
    await (await client()).write(0, BLOCK);
    machineBootId = "machine-2";
    proxy.cut();
    await eventually(async () => {
      await disk.look?.();
      return lost !== undefined;
    });
    expect(lost).to.equal("the machine of device a has restarted");
  });

  it("goes on after a failed read and after a lost connection", async () => {
    const writer = await client();
    await writer.write(0, BLOCK);
    fixture.files.failNextRead = Object.assign(new Error("a bad block"), { code: "EIO" });
    await disk.look?.();
    // The first answer was for the start of the daemon.
    await eventually(() => answers === 2);
    await sleep(50);
    proxy.cut();
    await disk.look?.();
    expect((await writer.read(0, BLOCK.length)).equals(BLOCK)).to.equal(true);
    expect(lost).to.equal(undefined);
  });
});
