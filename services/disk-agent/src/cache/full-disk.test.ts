import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DiskFullError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { SmallDisk, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { CacheFile } from "./cache-file.js";

describe("an agent's cache on a full disk", () => {
  it("says so, keeps what it holds, and goes on once there is room", async function () {
    using disk = SmallDisk.mount(1024 * 1024);
    if (disk === undefined) skipBecause(this, "no file system can be mounted here");
    const path = join(disk.folder, "agent-cache.json");
    const cache = new CacheFile<string>({ path, encode: (text) => text, stored: undefined });
    await cache.store("first");
    disk.fill();
    await rejection(
      cache.store("x".repeat(8_192)),
      DiskFullError,
      `the disk that holds ${path} is full: make room there`,
    );
    expect(readFileSync(path, "utf8")).to.equal("first");
    disk.makeRoom();
    await cache.store("second");
    expect(readFileSync(path, "utf8")).to.equal("second");
  });
});
