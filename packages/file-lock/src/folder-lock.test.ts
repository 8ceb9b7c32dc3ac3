import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { UnavailableError } from "@diskmesh/domain";
import { eventually, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { FOLDER_LOCK_NAME, FolderLock } from "./folder-lock.js";

describe("a folder's lock", () => {
  let folder: string;

  beforeEach(() => {
    folder = temporaryFolder();
  });

  const refusal = () =>
    FolderLock.take(folder).then(
      () => "taken",
      (error: Error) => {
        expect(error).to.be.instanceOf(UnavailableError);
        return error.message;
      },
    );

  it("excludes every process, also this one, until it is released", async () => {
    const lock = await FolderLock.take(folder);
    expect(await refusal()).to.match(new RegExp(`${folder}" is in use by process ${process.pid} `));
    lock.release();
    lock.release();
    using _again = await FolderLock.take(folder);
    expect(readdirSync(folder)).to.deep.equal([FOLDER_LOCK_NAME]);
  });

  it("ends when its process is killed, although a program started by the process lives on", async () => {
    const main = fileURLToPath(new URL("./testing/lock-and-wait.js", import.meta.url));
    const holder = spawn(process.execPath, [main, folder], { stdio: ["pipe", "pipe", "inherit"] });
    const [text] = await once(holder.stdout, "data");
    const heir = Number(String(text));
    try {
      expect(await refusal()).to.contain(`in use by process ${holder.pid} (`);
      const exited = once(holder, "exit");
      holder.kill("SIGKILL");
      await exited;
      process.kill(heir, 0);
      using _lock = await FolderLock.take(folder);
    } finally {
      process.kill(heir, "SIGKILL");
    }
  });

  it("ignores the content of a lock file left by an earlier release", async () => {
    writeFileSync(join(folder, FOLDER_LOCK_NAME), JSON.stringify({ pid: process.pid, startTime: "", bootId: "" }));
    using _lock = await FolderLock.take(folder);
  });

  it("cannot be taken by another user's process", async function () {
    if (process.getuid?.() !== 0) skipBecause(this, "only root can become another user");
    chmodSync(folder, 0o755);
    (await FolderLock.take(folder)).release();
    process.seteuid?.(65_534);
    try {
      expect(await refusal()).to.match(/cannot open the lock file .*EACCES/);
    } finally {
      process.seteuid?.(0);
    }
  });

  const odd: [string, () => void][] = [
    ["a link in its place", () => symlinkSync("/etc/passwd", join(folder, FOLDER_LOCK_NAME))],
    ["a folder in its place", () => mkdirSync(join(folder, FOLDER_LOCK_NAME))],
    [
      "no folder",
      () => {
        folder = join(folder, "missing");
      },
    ],
  ];
  for (const [title, make] of odd)
    it(`refuses ${title}, naming it`, async () => {
      make();
      expect(await refusal()).to.match(/cannot open the lock file .*owner\.lock: E/);
    });

  it("is given to one of many concurrent takers", async () => {
    const taken = await Promise.allSettled(Array.from({ length: 8 }, () => FolderLock.take(folder)));
    const locks = taken.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    expect(locks).to.have.length(1);
    locks[0]?.release();
    await eventually(async () => (await refusal()) === "taken");
  });
});
