import { readFileSync } from "node:fs";
import { join } from "node:path";
import { AbortedError, DiskFullError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, SmallDisk, skipBecause, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { startTestAgent } from "../testing/agent-process.js";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { TestRegistry } from "../testing/test-registry.js";
import { CacheFile } from "./cache-file.js";
import { seal } from "./seal.js";
import { latestText } from "./slots.js";

const encode = (text: string): string => seal(`{"text":"${text}"}\n`);

describe("an agent's cache on a full disk", () => {
  it("reports it, keeps its contents, and continues once there is space", async function () {
    using disk = SmallDisk.mount(1024 * 1024);
    if (disk === undefined) skipBecause(this, "no file system can be mounted here");
    const path = join(disk.folder, "agent-cache.json");
    const cache = new CacheFile<string>({ path, encode, stored: undefined });
    await cache.store("first");
    disk.fill();
    await rejection(
      cache.store("x".repeat(8_192)),
      DiskFullError,
      `the disk that holds ${path} is full: free space there`,
    );
    expect(latestText(readFileSync(path, "utf8"))).to.equal(encode("first"));
    disk.makeRoom();
    await cache.store("second");
    expect(latestText(readFileSync(path, "utf8"))).to.equal(encode("second"));
    await cache.close();
  });

  it("is detected without an order, and so is its end", async function () {
    using disk = SmallDisk.mount(1024 * 1024);
    if (disk === undefined) skipBecause(this, "no file system can be mounted here");
    const path = join(disk.folder, "agent-cache.json");
    const text = "x".repeat(8_192);
    const cache = new CacheFile<string>({ path, encode: () => encode(text), stored: undefined });
    await cache.check();
    expect(cache.problem, "there is nothing to write").to.equal(undefined);
    await cache.store("first");
    disk.fill();
    await cache.check();
    expect(cache.problem).to.match(/ENOSPC/);
    expect(cache.stored).to.equal("first");
    disk.makeRoom();
    await cache.check();
    expect(cache.problem).to.equal(undefined);
    expect(latestText(readFileSync(path, "utf8"))).to.equal(encode(text));
    await cache.close();
  });

  it("is reported to the registry as a warning of the host, also at a registration, until there is space", async function () {
    using disk = SmallDisk.mount(1024 * 1024);
    if (disk === undefined) skipBecause(this, "no file system can be mounted here");
    const certs = await testCertificates({ hostIds: ["host-1"] });
    const registry = new TestRegistry(certs.files("disk-registry"));
    await registry.start();
    const folder = temporaryFolder();
    const path = makeDeviceFile(folder, "a", 4096);
    const config = { baseFolder: join(disk.folder, "base"), tuning: { cacheCheckIntervalMs: 100 } };
    const devices = [{ deviceId: "dev-a", path, sizeBytes: 4096 }];
    const { address: registryAddress } = registry;
    const agent = await startTestAgent({ hostId: "host-1", folder, certs, registryAddress, devices, config });
    try {
      await eventually(() => expect(registry.heartbeats.at(-1)?.warning).to.equal(""));
      const warning = /^its agent cannot accept orders: .*ENOSPC/;
      await eventually(() => {
        // Fills the disk again, because a running write may have replaced a file and freed its space.
        disk.fill();
        expect(registry.heartbeats.at(-1)?.warning).to.match(warning);
      });
      const before = registry.registrations.length;
      // The agent cannot store the new leader's generation, so it keeps registering.
      registry.become({ incarnation: registry.incarnation, tabletGeneration: 2 });
      registry.onHeartbeat = () => {
        throw new AbortedError("register again");
      };
      await eventually(() => expect(registry.registrations.length).to.be.above(before + 2));
      expect(registry.registrations.at(-1)?.warning).to.match(warning);
      expect(registry.registrations.at(-1)?.highestTabletGeneration, "as it is on disk").to.equal(1);
      registry.onHeartbeat = () => {};
      disk.makeRoom();
      const heard = registry.heartbeats.length;
      await eventually(() => expect(registry.heartbeats.slice(heard).at(-1)?.warning).to.equal(""));
      expect((await registry.registered("host-1")).highestTabletGeneration).to.be.within(1, 2);
    } finally {
      await agent.process.kill();
      await registry.stop();
    }
  });
});
