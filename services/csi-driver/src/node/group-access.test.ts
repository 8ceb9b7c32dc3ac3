import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chownSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { giveToGroup } from "./group-access.js";

const TENANT = 1000;
const RACE_MS = 20_000;
const FOLDERS = 40;
const FILES = 25;

/** Numbers of the system call renameat2, which exchanges two names at one moment. */
const RENAMEAT2: Partial<Record<NodeJS.Architecture, number>> = { x64: 316, arm64: 276 };

/** Exchanges each folder with a link beside it, without end. */
const EXCHANGE = `
my ($call, $root, $count) = @ARGV;
for (;;) {
  for my $index (0 .. $count - 1) {
    my ($folder, $link) = ("$root/$index", "$root/link-$index");
    syscall($call + 0, -100, $folder, -100, $link, 2);
  }
}`;

const accessOf = (path: string): string => {
  const { uid, gid, mode } = statSync(path);
  return `${uid}:${gid} ${(mode & 0o7777).toString(8)}`;
};

describe("the group of a volume's files", () => {
  let volume: string;
  let outside: string;

  before(function () {
    if (process.getuid?.() !== 0) skipBecause(this, "it gives files to other users, which needs root");
  });

  beforeEach(() => {
    volume = temporaryFolder();
    outside = temporaryFolder();
  });

  const outsiders = (): Record<string, string> =>
    Object.fromEntries(readdirSync(outside).map((name) => [name, accessOf(join(outside, name))]));

  function fill(folder: string, mode: number): void {
    for (let index = 0; index < FILES; index++) writeFileSync(join(folder, `${index}`), "", { mode });
  }

  it("never reaches a file outside of the volume while a tenant exchanges folders and links", async function () {
    this.timeout(10 * RACE_MS);
    skipWithout(this, "perl");
    const call = RENAMEAT2[process.arch] ?? skipBecause(this, `renameat2 has no known number on ${process.arch}`);
    fill(outside, 0o600);
    for (let index = 0; index < FOLDERS; index++) {
      const folder = join(volume, `${index}`);
      mkdirSync(folder);
      fill(folder, 0o600);
      symlinkSync(outside, join(volume, `link-${index}`));
      chownSync(folder, TENANT, TENANT);
    }
    chownSync(volume, TENANT, TENANT);
    const before = outsiders();
    const tenant = spawn("perl", ["-e", EXCHANGE, `${call}`, volume, `${FOLDERS}`], { uid: TENANT, stdio: "ignore" });
    try {
      for (const endMs = performance.now() + RACE_MS; performance.now() < endMs; )
        for (const groupId of [2000, 2001]) await giveToGroup(volume, groupId);
    } finally {
      await ended(tenant);
    }
    expect(outsiders()).to.deep.equal(before);
  });

  it("changes owners and set-user-ID bits of nothing, and the targets of links not at all", async () => {
    const file = join(volume, "file");
    writeFileSync(file, "", { mode: 0o600 });
    chownSync(file, TENANT, TENANT);
    spawnSync("chmod", ["4755", file]);
    spawnSync("mkfifo", [join(volume, "fifo")]);
    fill(outside, 0o600);
    symlinkSync(join(outside, "0"), join(volume, "link"));
    symlinkSync("nowhere", join(volume, "dangling"));
    const before = outsiders();
    await giveToGroup(volume, 2000);
    expect(accessOf(file)).to.equal(`${TENANT}:2000 775`);
    expect(accessOf(volume)).to.match(/^0:2000 277/);
    expect(outsiders()).to.deep.equal(before);
  });

  it("reaches folders below a path that is longer than the kernel takes", async function () {
    skipWithout(this, "perl");
    const make = 'chdir shift; for (1 .. 30) { mkdir "n" x 200; chdir "n" x 200 or die } open(my $file, ">", "file")';
    expect(spawnSync("perl", ["-e", make, volume]).status).to.equal(0);
    await giveToGroup(volume, 2000);
    const { stdout } = spawnSync("find", [volume, "-name", "file", "-group", "2000"], { encoding: "utf8" });
    spawnSync("rm", ["-r", volume]);
    expect(stdout).to.match(/file\n$/);
  });
});

async function ended(child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await exited;
}
