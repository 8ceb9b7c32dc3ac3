import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";
import { skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { lockFile } from "./file-lock.js";
import { describeFlockHolder, describeHolder } from "./lock-holder.js";
import { OpenedFile } from "./testing/opened-file.js";
import { Outsider, type OutsiderLock } from "./testing/outsider.js";

const SIZE_BYTES = 1024 * 1024;

describe("a file's lock", () => {
  const file = OpenedFile.forEachTest(SIZE_BYTES);
  const open = () => file.open();
  const facts = () => fstatSync(open(), { bigint: true });

  it("belongs to one open file description, even within a process, until that is closed", () => {
    const first = openSync(file.path, "r+");
    expect(lockFile(first)).to.deep.equal({ outcome: "locked" });
    const second = open();
    expect(lockFile(second)).to.deep.equal({ outcome: "held" });
    // A POSIX lock would end with the close of any descriptor of the process.
    closeSync(openSync(file.path, "r+"));
    expect(lockFile(second)).to.deep.equal({ outcome: "held" });
    closeSync(first);
    expect(lockFile(second)).to.deep.equal({ outcome: "locked" });
  });

  it("reports why a file cannot be locked", () => {
    const fd = file.open("r");
    const attempt = lockFile(fd);
    expect(attempt.outcome).to.equal("impossible");
    expect(attempt)
      .to.have.property("reason")
      .that.matches(/bad file/i);
  });

  for (const kind of ["posix", "ofd", "ofd byte"] satisfies OutsiderLock[])
    it(`reports held and names the holder when another program has ${kind}`, async function () {
      skipWithout(this, "python3");
      await using outsider = await Outsider.lock(file.path, kind);
      expect(outsider.said).to.equal("locked");
      expect(lockFile(open())).to.deep.equal({ outcome: "held" });
      expect(await describeHolder(facts())).to.equal(`process ${outsider.pid} (python3)`);
    });

  it("names the holder of a flock, although Linux does not let it exclude our lock", async function () {
    skipWithout(this, "python3");
    expect(await describeFlockHolder(facts())).to.equal(undefined);
    await using outsider = await Outsider.lock(file.path, "flock");
    expect(lockFile(open())).to.deep.equal({ outcome: "locked" });
    expect(await describeFlockHolder(facts())).to.equal(`process ${outsider.pid} (python3)`);
  });

  it("names util-linux flock as the holder", async function () {
    if (spawnSync("flock", ["--version"]).error) skipBecause(this, "flock is not on PATH");
    const holder = spawn("flock", [file.path, "cat"], { stdio: ["pipe", "pipe", "inherit"] });
    holder.stdin.write("locked");
    await once(holder.stdout, "data");
    expect(await describeFlockHolder(facts())).to.match(/^process \d+ \((flock|cat)\)$/);
    holder.stdin.end();
    await once(holder, "exit");
    expect(await describeFlockHolder(facts())).to.equal(undefined);
  });

  for (const kind of ["posix", "ofd"] satisfies OutsiderLock[])
    it(`excludes ${kind} of another program`, async function () {
      skipWithout(this, "python3");
      lockFile(open());
      await using outsider = await Outsider.lock(file.path, kind);
      expect(outsider.said).to.match(/temporarily unavailable/);
    });

  it("lets QEMU's tools inspect the file and write to it", function () {
    if (spawnSync("qemu-io", ["--version"]).error) skipBecause(this, "qemu-io is not on PATH");
    lockFile(open());
    const info = execFileSync("qemu-img", ["info", "-f", "raw", "--output=json", file.path], { encoding: "utf8" });
    expect(JSON.parse(info)["virtual-size"]).to.equal(SIZE_BYTES);
    execFileSync("qemu-io", ["-f", "raw", "-c", "write -P 7 0 4096", file.path]);
    expect(readFileSync(file.path)[4095]).to.equal(7);
  });

  it("names no holder when nobody holds a lock", async () => {
    expect(await describeHolder(facts())).to.match(/cannot be seen/);
  });
});
