import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, fstatSync, openSync } from "node:fs";
import { expect } from "chai";
import { lockFile } from "./file-lock.js";
import { isSessionLocked, lockSession, sessionLockHolders } from "./session-lock.js";
import { OpenedFile } from "./testing/opened-file.js";

const DEVICE_BYTES = 1024 * 1024;

describe("a session's lock", () => {
  const file = OpenedFile.forEachTest(4 * DEVICE_BYTES);
  const open = () => file.open();
  const isLocked = (fd: number, at: number, except: number[] = []) =>
    isSessionLocked(fd, fstatSync(fd, { bigint: true }), at, except);
  const holders = (fd: number, at: number) => sessionLockHolders(fstatSync(fd, { bigint: true }), at);

  it("ends when the process that inherited it has ended, although the process that took it has none", async () => {
    const agent = open();
    expect(lockFile(agent)).to.deep.equal({ outcome: "locked" });
    const lent = openSync(`/proc/self/fd/${agent}`, "r+");
    expect(lockSession(lent, DEVICE_BYTES)).to.equal(true);
    const heir = spawn("sleep", ["60"], { stdio: ["ignore", "ignore", "ignore", lent] });
    closeSync(lent);
    expect(isLocked(agent, DEVICE_BYTES)).to.equal(true);
    expect(await holders(agent, DEVICE_BYTES)).to.deep.equal([heir.pid]);
    const exited = once(heir, "exit");
    heir.kill("SIGKILL");
    await exited;
    expect(isLocked(agent, DEVICE_BYTES)).to.equal(false);
  });

  it("is separate for each device of a file", () => {
    const [first, second, agent] = [open(), open(), open()];
    expect(lockSession(first, 0)).to.equal(true);
    expect(lockSession(second, DEVICE_BYTES)).to.equal(true);
    expect([0, DEVICE_BYTES, 2 * DEVICE_BYTES].map((at) => isLocked(agent, at))).to.deep.equal([true, true, false]);
  });

  it("is separate for each process that has the device, so that one of them can be left out", async () => {
    const [first, agent] = [open(), open()];
    const lent = openSync(`/proc/self/fd/${agent}`, "r+");
    expect(lockSession(lent, 0)).to.equal(true);
    const heir = spawn("sleep", ["60"], { stdio: ["ignore", "ignore", "ignore", lent] });
    const pid = heir.pid as number;
    closeSync(lent);
    expect(isLocked(agent, 0)).to.equal(true);
    expect(isLocked(agent, 0, [process.pid, pid])).to.equal(false);
    expect(lockSession(first, 0)).to.equal(true);
    expect(isLocked(agent, 0, [pid])).to.equal(true);
    const exited = once(heir, "exit");
    heir.kill("SIGKILL");
    await exited;
    expect(await holders(agent, 0)).to.deep.equal([]);
    expect(isLocked(agent, 0, [pid])).to.equal(true);
  });

  it("is refused when too many processes hold it, and leaves the next device alone", () => {
    const taken = Array.from({ length: 9 }, () => lockSession(open(), 0));
    expect(taken).to.deep.equal([true, true, true, true, true, true, true, true, false]);
    expect(isLocked(open(), 512)).to.equal(false);
  });

  it("does not exclude the next life of the agent, which still excludes a second agent", () => {
    const session = open();
    expect(lockSession(session, 0)).to.equal(true);
    expect(lockFile(open())).to.deep.equal({ outcome: "locked" });
    expect(lockFile(open())).to.deep.equal({ outcome: "held" });
  });
});
