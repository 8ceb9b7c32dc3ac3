import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, fstatSync, openSync } from "node:fs";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { lockFile } from "./file-lock.js";
import { isSessionLocked, lockSession, sessionLockHolders } from "./session-lock.js";
import { OpenedFile } from "./testing/opened-file.js";

const DEVICE_BYTES = 1024 * 1024;

describe("a session's lock", () => {
  const file = OpenedFile.forEachTest(4 * DEVICE_BYTES);
  const open = () => file.open();

  it("ends when the process that inherited it has ended, although the process that took it has none", async () => {
    const agent = open();
    expect(lockFile(agent)).to.deep.equal({ outcome: "locked" });
    const lent = openSync(`/proc/self/fd/${agent}`, "r+");
    expect(lockSession(lent, DEVICE_BYTES)).to.equal(true);
    const heir = spawn("sleep", ["60"], { stdio: ["ignore", "ignore", "ignore", lent] });
    closeSync(lent);
    expect(isSessionLocked(agent, DEVICE_BYTES)).to.equal(true);
    expect(await sessionLockHolders(fstatSync(agent, { bigint: true }), DEVICE_BYTES)).to.deep.equal([heir.pid]);
    const exited = once(heir, "exit");
    heir.kill("SIGKILL");
    await exited;
    expect(isSessionLocked(agent, DEVICE_BYTES)).to.equal(false);
  });

  it("is separate for each device of a file, and excludes a second session of its device", async () => {
    const [first, second, agent] = [open(), open(), open()];
    expect(lockSession(first, 0)).to.equal(true);
    expect(lockSession(second, DEVICE_BYTES)).to.equal(true);
    expect(lockSession(second, 0)).to.equal(false);
    expect([0, DEVICE_BYTES, 2 * DEVICE_BYTES].map((at) => isSessionLocked(agent, at))).to.deep.equal([
      true,
      true,
      false,
    ]);
    await eventually(async () => (await sessionLockHolders(fstatSync(agent, { bigint: true }), 0)).length === 0);
  });

  it("does not exclude the next life of the agent, which still excludes a second agent", () => {
    const session = open();
    expect(lockSession(session, 0)).to.equal(true);
    expect(lockFile(open())).to.deep.equal({ outcome: "locked" });
    expect(lockFile(open())).to.deep.equal({ outcome: "held" });
  });
});
