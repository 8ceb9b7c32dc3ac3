import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { TimeoutError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type Member, Mesh } from "./mesh.js";

const never = new AbortController().signal;

describe("the processes of the mesh", () => {
  let folder: string;
  let lines: string[];
  let mesh: Mesh;
  beforeEach(() => {
    folder = temporaryFolder();
    lines = [];
    mesh = new Mesh((line) => lines.push(line));
  });
  afterEach(() => mesh.stop());

  /** Returns a member whose process appends a line to `journal` when it starts and when it stops. */
  function member(name: string, script = ""): Member {
    const journal = join(folder, "journal");
    writeFileSync(journal, "", { flag: "a" });
    const program = `
      const { appendFileSync } = require("node:fs");
      const note = (what) => appendFileSync(${JSON.stringify(journal)}, what + " ${name}\\n");
      ${script}
      process.on("SIGTERM", () => { note("stop"); process.exit(0); });
      note("start");
      setInterval(() => {}, 1000);`;
    return {
      name,
      file: process.execPath,
      args: ["-e", program],
      logFile: join(folder, `${name}.log`),
      waitUntilReady: (_timeoutMs, signal) => started(name, signal),
    };
  }

  async function started(name: string, signal: AbortSignal): Promise<void> {
    while (!journal().includes(`start ${name}`)) await sleep(10, undefined, { signal });
  }

  function journal(): string[] {
    return readFileSync(join(folder, "journal"), "utf8").trimEnd().split("\n");
  }

  it("stop in the opposite order of their start", async () => {
    for (const name of ["a", "b", "c"]) await mesh.start([member(name)], never);
    await mesh.stop();
    expect(journal()).to.deep.equal(["start a", "start b", "start c", "stop c", "stop b", "stop a"]);
    expect(lines).to.deep.equal([]);
  });

  it("are restarted after SIGKILL, which is reported in a line", async () => {
    await mesh.start([member("a")], never);
    process.kill(mesh.pidOf("a") ?? 0, "SIGKILL");
    await eventually(() => journal().length === 2);
    expect(lines).to.deep.equal(["a ended (SIGKILL); starting it again in 0.2 s"]);
    expect(mesh.restarts).to.equal(1);
  });

  it("report a failed start in one line with the last message of the process", async () => {
    const bad = member("bad", 'console.error("first"); console.error("no such table"); process.exit(3);');
    await rejection(
      mesh.start([bad], never),
      Error,
      /^bad did not start \(exit code 3\): no such table \(log: .*bad\.log; .*--fresh\)$/,
    );
  });

  it("report a missing program", async () => {
    const missing = { ...member("missing"), file: "no-such-program" };
    await rejection(mesh.start([missing], never), Error, /^no-such-program is not on PATH: install it/);
  });

  it("report a process that does not become ready", async () => {
    const slow: Member = {
      ...member("slow"),
      waitUntilReady: () => Promise.reject(new TimeoutError("it does not serve")),
    };
    await rejection(mesh.start([slow], never), Error, /^slow: it does not serve; it logged last: /);
  });

  it("abort a start on a signal", async () => {
    const stopping = new AbortController();
    const deaf: Member = {
      ...member("deaf"),
      waitUntilReady: (_timeoutMs, signal) => sleep(60_000, undefined, { signal }),
    };
    const start = rejection(mesh.start([deaf], stopping.signal));
    stopping.abort();
    expect((await start).message).to.include("abort");
  });

  it("end with their launcher, even when that is killed", async () => {
    const launcher = new URL("./mesh.js", import.meta.url).href;
    const script = `
      const { Mesh } = await import(${JSON.stringify(launcher)});
      const mesh = new Mesh(() => {});
      await mesh.start([{ name: "orphan", file: process.execPath, args: ["-e", "setInterval(() => {}, 1000)"],
        logFile: ${JSON.stringify(join(folder, "orphan.log"))}, waitUntilReady: async () => {} }], new AbortController().signal);
      console.log(mesh.pidOf("orphan"));`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const pid = Number(await new Promise<string>((resolve) => child.stdout.setEncoding("utf8").once("data", resolve)));
    expect(isAlive(pid)).to.equal(true);
    child.kill("SIGKILL");
    await eventually(() => !isAlive(pid));
  });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A zombie (ended, not yet waited for) counts as ended.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
