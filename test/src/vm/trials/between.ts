import { readdirSync, readFileSync, realpathSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  beginBlockFlood,
  DEVICE_BYTES,
  describeEngine,
  makeFileOpener,
  noise,
  type Verb,
  Verbs,
  whyNoNvme,
} from "@diskmesh/disk-agent/testing";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import {
  DISK,
  endStorage,
  expectCut,
  HOLDER,
  KEY,
  nqns,
  STORAGE,
  sceneOf,
  specBetween,
  TwoHosts,
} from "./between-hosts.js";
import { command, Devices } from "./device-mapper.js";
import { count } from "./tally.js";

const DEPTH = 16;
const ROUNDS = 5;
/** Time in which a late write would come. */
const LATE_MS = 300;

function isOfMesh(disk: string): boolean {
  return readFileSync(`/sys/block/${disk}/device/subsysnqn`, "utf8").startsWith("nqn.2026-11.io.diskmesh:");
}

describe("a disk of the kernel engine with parts on another host", () => {
  it("has the bytes of all of its parts, and leaves nothing on both hosts", async () => {
    await using devices = new Devices();
    const hosts = await TwoHosts.start(devices);
    const { holder, storage } = hosts;
    const path = await hosts.publish(1, ["a", "d"], ["b"]);
    expect(realpathSync(path)).to.match(/^\/dev\/dm-/);
    const client = await hosts.use(path);
    expect(client.sizeBytes).to.equal(3 * DEVICE_BYTES);
    const data = noise(3 * DEVICE_BYTES);
    await client.write(0, data, { fua: true });
    expect((await client.read(0, data.length)).equals(data)).to.equal(true);
    expect((await hosts.bytesOf("a")).equals(data.subarray(0, DEVICE_BYTES))).to.equal(true);
    expect((await hosts.bytesOf("d")).equals(data.subarray(DEVICE_BYTES, 2 * DEVICE_BYTES))).to.equal(true);
    expect(nqns().served).to.have.length(1);
    const [namespace = ""] = readdirSync("/sys/block").filter((name) => /^nvme\d+n\d+$/.test(name) && isOfMesh(name));
    const asDevice = await rejection(makeFileOpener({ requireLocks: true }).look(`/dev/${namespace}`));
    expect(asDevice.message).to.match(/it is a part of a disk, on a device of another host of diskmesh$/);
    await client.disconnect();
    await holder.exports.drain(DISK, 1, () => {});
    await holder.exports.end(DISK, 1);
    expect(nqns().connected).to.deep.equal([]);
    await storage.open("disk-2", 2, ["a", "d"]);
    await eventually(async () => {
      expect(nqns().served).to.deep.equal([]);
      const kinds = (await storage.mapper?.list())?.map(({ role }) => role.kind);
      expect(new Set(kinds)).to.deep.equal(new Set(["guard"]));
    });
  });

  it("is fenced in mid-write, and not a byte comes after the grant", async () => {
    await using devices = new Devices();
    const hosts = await TwoHosts.start(devices);
    const { holder, storage } = hosts;
    for (let round = 0; round < ROUNDS; round++) {
      const session = 2 * round + 1;
      const flood = await beginBlockFlood(await hosts.publish(session, ["a", "d"], ["b"]), DEPTH);
      await eventually(() => flood.writes() > DEPTH);
      await storage.open(DISK, session + 1, ["a", "d"]);
      const granted = [await hosts.bytesOf("a"), await hosts.bytesOf("d")];
      await flood.ended;
      expectCut(flood.errors);
      await sleep(LATE_MS);
      expect([await hosts.bytesOf("a"), await hosts.bytesOf("d")]).to.deep.equal(granted);
      await holder.exports.end(DISK, session);
      count("fences between hosts");
    }
    await eventually(() => expect(nqns()).to.deep.equal({ served: [], connected: [] }));
  });

  it("goes on while the agents of both hosts restart, and ends later", async () => {
    await using devices = new Devices();
    const hosts = await TwoHosts.start(devices);
    const flood = await beginBlockFlood(await hosts.publish(1, ["a", "d"], ["b"]), DEPTH);
    for (const hostId of [STORAGE, HOLDER, STORAGE, HOLDER]) {
      // Another config changes nothing for what is served.
      await hosts.restart(hostId, { whyNot: "the test has another config" });
      const before = flood.writes();
      await eventually(() => flood.writes() > before + DEPTH);
    }
    expect(hosts.holder.exports.list()).to.deep.equal([{ diskId: DISK, sessionNumber: 1, wentOn: true }]);
    expect(flood.errors.size).to.equal(0);
    await hosts.storage.open("disk-2", 2, ["a", "d"]);
    await flood.ended;
    expectCut(flood.errors);
    await hosts.holder.exports.end(DISK, 1);
    await eventually(() => expect(nqns()).to.deep.equal({ served: [], connected: [] }));
  });

  it("becomes longer under a writer", async () => {
    await using devices = new Devices();
    const hosts = await TwoHosts.start(devices);
    const { holder, storage, port } = hosts;
    const run = { offsetBytes: 0, sizeBytes: DEVICE_BYTES / 2 };
    const grant = (of: typeof run) => storage.fixture.openSession("a", 1, HOLDER, KEY, of);
    expect(await grant(run)).to.equal("done");
    const path = await holder.exports.serve(specBetween(port, 1, ["a"], [], DEVICE_BYTES / 2));
    const flood = await beginBlockFlood(path, 2);
    await grant({ ...run, sizeBytes: DEVICE_BYTES });
    await holder.exports.serve({ ...specBetween(port, 1, ["a"]), revision: 1 });
    expect((await hosts.use(path)).sizeBytes).to.equal(DEVICE_BYTES);
    await storage.open(DISK, 2, ["a"]);
    await flood.ended;
    expectCut(flood.errors);
  });

  it("fails the flush after a restart of the device's machine, and is made anew", async () => {
    await using devices = new Devices();
    const hosts = await TwoHosts.start(devices);
    const { holder } = hosts;
    for (let round = 1; round <= ROUNDS; round++) {
      const path = await hosts.publish(round, ["a"], ["b"]);
      const former = realpathSync(path);
      const client = await hosts.use(path);
      await client.write(0, noise(4096));
      // A restart takes the kernel's configuration, and the cache of the drive.
      const left = await hosts.storage.leave();
      await endStorage(hosts.storage);
      const bootId = async () => `00000000-0000-4000-8000-00000000000${round}`;
      hosts.storage = sceneOf(STORAGE, left, { bootId });
      await hosts.storage.start();
      await hosts.storage.listen(hosts.port);
      expectCut([(await rejection(client.flush(), Error)).message]);
      await eventually(async () => {
        await holder.exports.lookAtSockets();
        expect(realpathSync(path)).to.not.equal(former);
      });
      const fresh = await hosts.use(path);
      await fresh.write(0, noise(4096), { fua: true });
      expectCut([(await rejection(client.flush(), Error)).message]);
      await client.disconnect();
      await fresh.disconnect();
      await holder.exports.end(DISK, round);
      count("flushes after a restart of the device's machine, which failed");
    }
  });

  it("is carried by node where one of the hosts does not trust its network", async () => {
    for (const side of ["holder", "storage"] as const) {
      await using devices = new Devices();
      const hosts = await TwoHosts.start(devices, { [side]: { whyNot: "its network is not trusted" } });
      const path = await hosts.publish(1, ["a"], ["b"]);
      const client = await hosts.holder.connect(path);
      const data = noise(2 * DEVICE_BYTES);
      await client.write(0, data, { fua: true });
      expect((await hosts.bytesOf("a")).equals(data.subarray(0, DEVICE_BYTES))).to.equal(true);
      expect(nqns()).to.deep.equal({ served: [], connected: [] });
      await client.disconnect();
    }
  });

  it("waits for a hang of the kernel's configuration in one session, and no other session does", async () => {
    await using devices = new Devices();
    let isHanging = true;
    /** Hangs in the subsystem of session 1. */
    class HangingVerbs extends Verbs {
      override run(subject: string, verb: Verb, check?: () => void): Promise<string> {
        return super.run(
          subject,
          isHanging && subject.includes(":1:") ? { ...verb, script: "exec sleep 1000" } : verb,
          check,
        );
      }
    }
    const verbs = new HangingVerbs(1_000);
    const hosts = await TwoHosts.start(devices, { storage: { verbs } });
    const hung = rejection(hosts.publish(1, ["a"]));
    await hosts.storage.open("disk-2", 2, ["b"], { holderHostId: HOLDER, sessionKey: KEY });
    const [extent] = specBetween(hosts.port, 2, ["b"]).extents;
    if (extent === undefined) throw new Error("no extent");
    const path = await hosts.holder.exports.serve({
      ...{ diskId: "disk-2" as typeof DISK, sessionNumber: 2, blockSizeBytes: 4096 },
      extents: [extent],
    });
    const client = await hosts.use(path);
    await client.write(0, noise(4096), { fua: true });
    await client.disconnect();
    expect((await hung).message).to.match(/namespace of device a in session 1 failed: it did not end within 1000 ms/);
    await hosts.holder.exports.end("disk-2" as typeof DISK, 2);
    // The grant of another session waits for the wipe of the leg alone.
    await hosts.storage.open("disk-3", 3, ["a"]);
    isHanging = false;
  });
});

describe("NVMe multipath", () => {
  const PARAMETER = "/sys/module/nvme_core/parameters/multipath";
  const check = () => describeEngine({ engine: "kernel", storageNetwork: "trusted" });

  for (const { value, reason } of [
    { value: "N", reason: undefined },
    { value: "Y", reason: /boot with nvme_core\.multipath=N$/ },
  ])
    it(`${value} ${reason === undefined ? "lets" : "does not let"} NVMe/TCP carry parts on other hosts`, async () => {
      const file = join(temporaryFolder(), "multipath");
      await writeFile(file, `${value}\n`);
      await command("mount", "--bind", file, PARAMETER);
      try {
        for (const text of [await whyNoNvme(new Verbs()), await check()])
          if (reason === undefined) expect(text ?? "").to.not.contain("multipath");
          else expect(text).to.match(reason);
      } finally {
        await command("umount", PARAMETER);
      }
    });
});
