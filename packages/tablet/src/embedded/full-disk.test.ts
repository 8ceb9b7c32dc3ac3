import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DiskFullError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { leaveToVerify, SmallDisk, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { openEmbeddedStorage } from "./embedded-storage.js";

const PAGE_BYTES = 4_096;

describe("A full disk and the embedded store", () => {
  describe("of a few MiB", () => {
    let disk: SmallDisk | undefined;
    let folder: string;

    before(function () {
      disk = SmallDisk.mount(4 * 1024 * 1024);
      if (disk === undefined) skipBecause(this, "no file system can be mounted here");
      folder = join(disk.folder, "registry");
    });

    after(() => disk?.[Symbol.dispose]());

    beforeEach(async () => {
      for (const name of await readdir((disk as SmallDisk).folder))
        await rm(join((disk as SmallDisk).folder, name), { recursive: true });
    });

    it("fails a commit without room by name, keeps everything else, and continues once there is room", async () => {
      (disk as SmallDisk).fill(3 * 1024 * 1024);
      await checkFilling(spawn(process.execPath, [FILL, folder, join((disk as SmallDisk).folder, "filler")]), folder);
    });

    it("is reported on opening an empty folder, and leaves nothing there", async function () {
      leaveToVerify(this);
      let full = 0;
      let served = 0;
      for (const pages of [0, 1, 2, 3, 4, 6, 300]) {
        (disk as SmallDisk).makeRoom();
        await rm(folder, { recursive: true, force: true });
        await mkdir(folder);
        (disk as SmallDisk).fill(pages * PAGE_BYTES);
        const output = await open(folder);
        if (output.includes("serves")) served++;
        else {
          full++;
          expect(output).to.contain(`the disk that holds ${folder} is full: free space there`);
          expect(output).not.to.contain("backup");
          expect((await readdir(folder)).filter((name) => name !== "owner.lock")).to.deep.equal([]);
          (disk as SmallDisk).makeRoom();
          expect(await open(folder)).to.contain("serves");
        }
      }
      expect(full).to.be.greaterThan(0);
      expect(served).to.be.greaterThan(0);
    });

    it("lets a tablet start thirty times and be read, from a reserve that commits cannot use", async () => {
      expect(await open(folder)).to.contain("serves");
      const reserve = join(folder, "reserve");
      expect(statSync(reserve).size).to.equal(2 ** 20);
      (disk as SmallDisk).fill();
      for (let start = 0; start < 30; start++) {
        const storage = new TrackedStorage(openEmbeddedStorage({ folder }));
        await storage.claim({ writer: "writer", address: "" });
        await storage.load();
        const large = { table: "hosts", key: "a", document: { text: "x".repeat(2 * PAGE_BYTES) } };
        await rejection(storage.commit([large]), DiskFullError);
        await storage.close({ handOver: true });
      }
      expect(statSync(reserve).size).to.be.within(1, 2 ** 20 - 30 * PAGE_BYTES);
      expect(await open(folder)).to.contain("serves");
      (disk as SmallDisk).makeRoom();
      expect(await open(folder)).to.contain("serves");
      expect(statSync(reserve).size).to.equal(2 ** 20);
    });
  });

  it("is reported when a file size limit is reached", async () => {
    const folder = join(temporaryFolder(), "registry");
    const limited = `trap '' XFSZ; ulimit -f 4000; exec "$0" "$@"`;
    await checkFilling(
      spawn("/bin/sh", ["-c", limited, process.execPath, FILL, folder]),
      folder,
      "allows no larger file",
    );
  });
});

async function checkFilling(child: ChildProcess, folder: string, reason = "is full"): Promise<void> {
  const { code, output } = await outputOf(child);
  expect(code, output).to.equal(0);
  const { committed, commitMessage, appendMessage, ends } = JSON.parse(output);
  expect(committed).to.be.greaterThan(3);
  expect(commitMessage).to.match(/^DiskFullError: cannot write to the tablet: /);
  expect(commitMessage).to.contain(`the disk that holds ${folder} ${reason}`);
  expect(appendMessage).to.match(/^DiskFullError: cannot write to the event log: /);
  expect(appendMessage).to.contain(`the disk that holds ${folder}-events ${reason}`);
  expect(ends).to.deep.equal(["first", "last"]);
  const storage = openEmbeddedStorage({ folder });
  await storage.claim({ writer: "writer", address: "127.0.0.1:1" });
  const contents = new Map<string, object>();
  await storage.load((_, key, { document }) => contents.set(key, document));
  await storage.close({ handOver: true });
  expect(contents.get("counter")).to.deep.equal({ i: committed - 1 });
  expect(contents.get("small")).to.deep.equal({ i: committed });
  expect(contents.size).to.equal(2 + committed);
}

/** Returns the output of a child process that opens the tablet in the folder. Throws when a signal ended it. */
async function open(folder: string): Promise<string> {
  const { code, output, errors } = await outputOf(spawn(process.execPath, [OPEN, folder]));
  if (code === null || code > 1) throw new Error(`ended with ${code}: ${errors}`);
  return output + errors;
}

async function outputOf(child: ChildProcess): Promise<{ code: number | null; output: string; errors: string }> {
  let output = "";
  let errors = "";
  child.stdout?.on("data", (chunk) => {
    output += chunk;
  });
  child.stderr?.on("data", (chunk) => {
    errors += chunk;
  });
  const [code] = await once(child, "close");
  return { code, output, errors };
}

const FILL = fileURLToPath(new URL("./testing/fill-until-full.js", import.meta.url));
const OPEN = fileURLToPath(new URL("./testing/open-and-print.js", import.meta.url));
