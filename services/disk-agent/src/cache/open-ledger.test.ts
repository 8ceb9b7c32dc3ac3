import { constants, readFileSync } from "node:fs";
import * as files from "node:fs/promises";
import { join } from "node:path";
import { parseDeviceId, parseHostId, silentLogger } from "@diskmesh/domain";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { CacheFileSystem } from "./cache-file.js";
import { openLedger } from "./open-ledger.js";

describe("an agent's ledger", () => {
  const opened: files.FileHandle[] = [];
  const open = async (...given: Parameters<typeof files.open>): Promise<files.FileHandle> => {
    const handle = await files.open(...given);
    opened.push(handle);
    return handle;
  };
  // Closes the files, as the operating system does when an agent is killed.
  afterEach(() => Promise.all(opened.splice(0).map((handle) => handle.close())));

  it("survives repeated kills", async () => {
    const folder = temporaryFolder();
    const paths = { cacheFile: join(folder, "agent-cache.json"), markFile: join(folder, "agent-has-run") };
    const start = async () => {
      const options = { nowMs: 0, files: { ...files, open } as CacheFileSystem, log: silentLogger };
      const { ledger, cacheIsLost } = await openLedger(parseHostId("h1"), paths, options);
      expect(cacheIsLost).to.equal(false);
      return ledger;
    };
    const text = () => readFileSync(paths.cacheFile, "utf8");
    // Contains non-ASCII characters, as a drive's error text may.
    const hardwareError = "ошибка 💥";
    for (let life = 1; life <= 3; life++) {
      const ledger = await start();
      expect(ledger.memory.tabletGeneration).to.equal((life - 1) * 10);
      for (let write = 1; write <= 10; write++) {
        const tabletGeneration = (life - 1) * 10 + write;
        const devices = new Map([[parseDeviceId(`d${write}`), { hardwareError }], ...ledger.memory.devices]);
        ledger.remember({ ...ledger.memory, tabletGeneration, devices });
        await ledger.durable();
      }
    }
    expect(text()).not.to.match(/^{/);
    const last = await start();
    expect(last.memory.tabletGeneration).to.equal(30);
    expect(last.memory.devices.get(parseDeviceId("d10"))).to.deep.equal({ hardwareError });
    await last.close();
  });

  it("is written with O_DSYNC", async () => {
    const folder = temporaryFolder();
    const paths = { cacheFile: join(folder, "agent-cache.json"), markFile: join(folder, "agent-has-run") };
    const options = { nowMs: 0, files: { ...files, open } as CacheFileSystem, log: silentLogger };
    const { ledger } = await openLedger(parseHostId("h1"), paths, options);
    ledger.remember({ ...ledger.memory, tabletGeneration: 1 });
    await ledger.durable();
    const kept = opened.filter(({ fd }) => fd >= 0);
    expect(kept).to.have.length(1);
    const [, flags = ""] = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${kept[0]?.fd}`, "utf8")) ?? [];
    expect(Number.parseInt(flags, 8) & constants.O_DSYNC).to.equal(constants.O_DSYNC);
  });

  for (const [what, disturb] of [
    ["replaced by an older one", (path: string, old: string) => files.rename(old, path)],
    ["taken away", (path: string) => files.rm(path)],
  ] as const)
    it(`restores a file that was ${what} while in use with the next write`, async () => {
      const folder = temporaryFolder();
      const paths = { cacheFile: join(folder, "agent-cache.json"), markFile: join(folder, "agent-has-run") };
      const options = { nowMs: 0, files: { ...files, open } as CacheFileSystem, log: silentLogger };
      const { ledger } = await openLedger(parseHostId("h1"), paths, options);
      const write = async (tabletGeneration: number) => {
        ledger.remember({ ...ledger.memory, tabletGeneration });
        await ledger.durable();
      };
      await write(1);
      const old = join(folder, "backup");
      await files.copyFile(paths.cacheFile, old);
      for (const generation of [2, 3]) await write(generation);
      await disturb(paths.cacheFile, old);
      await write(4);
      const { ledger: next, cacheIsLost } = await openLedger(parseHostId("h1"), paths, options);
      expect({ cacheIsLost, generation: next.memory.tabletGeneration }).to.deep.equal({
        cacheIsLost: false,
        generation: 4,
      });
    });
});
