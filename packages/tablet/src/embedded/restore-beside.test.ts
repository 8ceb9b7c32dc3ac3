import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { DiskFullError, InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { SmallDisk, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { restoreBackup } from "../backup/restore.js";
import { randomOf } from "../contract/random.js";
import { openEmbeddedStorage } from "./embedded-storage.js";
import { backupOf, counted, makeTablet, type Texts, textsIn, textsOf } from "./testing/counted-tablet.js";
import { PowerCutFiles } from "./testing/power-cut-files.js";

const CHILD = fileURLToPath(new URL("./testing/restore-once.js", import.meta.url));
const FOLDER = "/state/registry";
const OLD = textsOf("old", 7);
const NEW = textsOf("new", 5);
/** More by hand: 200 take a minute. */
const KILLS = Number(process.env.DISKMESH_RESTORE_KILLS ?? 12);

describe("a restore that replaces a tablet in a folder", () => {
  let file: string;

  before(() => {
    file = backupOf(NEW);
  });

  const open = (files: PowerCutFiles) => openEmbeddedStorage({ folder: FOLDER, files, exclusive: false });
  const restore = (files: PowerCutFiles, replace = true) =>
    restoreBackup({ file, schema: counted, storage: open(files), tabletName: "registry", replace });

  async function oldTablet(): Promise<PowerCutFiles> {
    const files = new PowerCutFiles();
    await makeTablet(open(files), OLD);
    return files;
  }

  /** Returns the state that a start finds, or the message with which it refuses. */
  const found = (files: PowerCutFiles): Promise<Texts | string> =>
    textsIn(open(files)).catch((error: unknown) => {
      if (!(error instanceof InvalidStateError)) throw error;
      return error.message;
    });

  it("keeps the replaced tablet under another name, each time", async () => {
    const files = await oldTablet();
    await restore(files);
    expect(files.list("/state")).to.have.members(["registry", "registry.replaced-1"]);
    expect(await found(files)).to.deep.equal(NEW);
    await restore(files);
    expect(files.list("/state")).to.have.members(["registry", "registry.replaced-1", "registry.replaced-2"]);
    const kept = openEmbeddedStorage({ folder: `${FOLDER}.replaced-1`, files, exclusive: false });
    expect(await textsIn(kept)).to.deep.equal(OLD);
  });

  for (const canSwap of [true, false]) {
    const where = canSwap ? "" : ", where names cannot be exchanged";

    it(`leaves the old tablet or the whole new one when any call fails${where}`, async () => {
      const seen = { old: 0, new: 0 };
      for (let call = 0; ; call++) {
        const files = Object.assign(await oldTablet(), { callsUntilError: call, canSwap });
        const error = await restore(files).catch((failure: unknown) => failure);
        const reached = files.callsUntilError < 0;
        files.callsUntilError = Number.POSITIVE_INFINITY;
        const state = await textsIn(open(files));
        const which = state.h0 === NEW.h0 ? "new" : "old";
        expect(state, `call ${call}`).to.deep.equal(which === "new" ? NEW : OLD);
        if (!reached) break;
        if (!(error instanceof Error)) expect(which, `call ${call}`).to.equal("new");
        seen[which]++;
        await restore(files);
        expect(await found(files)).to.deep.equal(NEW);
      }
      expect(seen.old + seen.new).to.be.above(31);
      expect(seen.new).to.be.above(0);
    });

    it(`leaves the old tablet or the whole new one when power or process end at any call${where}`, async () => {
      for (let call = 0, completed = false; !completed; call++)
        for (let seed = 1; seed <= 4; seed++) {
          const before = Object.assign(await oldTablet(), { callsLeft: call, canSwap });
          await restore(before).catch(() => {});
          completed = before.callsLeft >= 0;
          const random = randomOf(call * 10 + seed);
          const files = seed === 1 ? before.afterKill() : before.afterCut(random);
          const state = await found(files);
          if (!canSwap && typeof state === "string")
            expect(state, `call ${call}`).to.contain(`${FOLDER}.replaced-1 and ${FOLDER}.restoring beside it`);
          else expect(state, `call ${call}, seed ${seed}`).to.deep.equal((state as Texts).h0 === NEW.h0 ? NEW : OLD);
          await restore(files);
          expect(await found(files)).to.deep.equal(NEW);
        }
    });
  }

  it("leaves nothing that a start takes for a new tablet when it is cut off where there was none", async () => {
    let refused = 0;
    for (let call = 0, completed = false; !completed; call++) {
      const before = Object.assign(new PowerCutFiles(), { callsLeft: call });
      await restore(before, false).catch(() => {});
      completed = before.callsLeft >= 0;
      const files = before.afterKill();
      const state = await found(files);
      if (typeof state === "string") {
        expect(state).to.contain(`${FOLDER}.restoring beside it`);
        refused++;
        await restore(files, false);
      } else if (Object.keys(state).length > 0) expect(state).to.deep.equal(NEW);
    }
    expect(refused).to.be.above(20);
  });

  it("leaves the old tablet when its process is killed at random, or the whole new one", async function () {
    this.timeout(300_000 + KILLS * 10_000);
    const [older, newer] = [textsOf("old", 300), textsOf("new", 4_000)];
    const large = backupOf(newer);
    const random = randomOf(49);
    for (let kill = 0; kill < KILLS; kill++) {
      const folder = join(temporaryFolder(), "registry");
      await makeTablet(openEmbeddedStorage({ folder }), older);
      const child = spawn(process.execPath, [CHILD, folder, large], { stdio: ["ignore", "ignore", "inherit"] });
      const exited = once(child, "exit");
      // From the moment at which it begins to write, about as long as it takes.
      while (!existsSync(`${folder}.restoring`) && child.exitCode === null) await delay(1);
      await delay(random() * 250);
      child.kill("SIGKILL");
      await exited;
      const state = await textsIn(openEmbeddedStorage({ folder }));
      expect(state, `kill ${kill}`).to.deep.equal(state.h0 === newer.h0 ? newer : older);
    }
  });

  it("leaves the old tablet on a full disk, and nothing beside it", async function () {
    using disk = SmallDisk.mount(4 * 1024 * 1024);
    if (disk === undefined) return skipBecause(this, "no file system can be mounted here");
    const folder = join(disk.folder, "registry");
    await makeTablet(openEmbeddedStorage({ folder }), OLD);
    const large = backupOf(textsOf("x".repeat(1_000), 5_000));
    const storage = () => openEmbeddedStorage({ folder });
    const options = { schema: counted, tabletName: "registry", replace: true };
    await rejection(restoreBackup({ ...options, file: large, storage: storage() }), DiskFullError);
    expect(readdirSync(disk.folder)).to.deep.equal(["registry"]);
    expect(await textsIn(storage())).to.deep.equal(OLD);
    await restoreBackup({ ...options, file, storage: storage() });
    expect(await textsIn(storage())).to.deep.equal(NEW);
    expect(existsSync(`${folder}.replaced-1`)).to.equal(true);
  });

  it("removes an unfinished restore that it finds, and keeps anything else", async () => {
    for (const name of ["data.mdb", "holds-data"]) {
      const files = await oldTablet();
      await files.makeFolder(`${FOLDER}.restoring`);
      await files.open(`${FOLDER}.restoring/${name}`, "w");
      await restore(files);
      expect(files.list("/state")).to.have.members(["registry", "registry.replaced-1", "registry.replaced-2"]);
      expect(files.list(`${FOLDER}.replaced-1`)).to.deep.equal([name]);
    }
    const files = Object.assign(await oldTablet(), { callsLeft: 20 });
    await restore(files).catch(() => {});
    const restarted = files.afterKill();
    expect(restarted.list("/state")).to.have.members(["registry", "registry.restoring"]);
    await restore(restarted);
    expect(restarted.list("/state")).to.have.members(["registry", "registry.replaced-1"]);
  });

  it("is named by a start that finds no tablet beside the folders that it left", async () => {
    for (const left of ["replaced-1", "restoring"]) {
      const files = await oldTablet();
      await files.rename(FOLDER, `${FOLDER}.${left}`);
      expect(await found(files)).to.contain(`a restore left ${FOLDER}.${left} beside it`);
      expect(files.list("/state")).to.deep.equal([`registry.${left}`]);
    }
  });
});
