import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";

const SAMPLE = fileURLToPath(new URL("./sample-service.js", import.meta.url));

describe("runService", () => {
  const folder = mkdtempSync(join(tmpdir(), "dm-run-"));
  const children = new Set<ChildProcess>();
  afterEach(() => {
    for (const child of children) child.kill("SIGKILL");
    children.clear();
  });
  after(() => rmSync(folder, { recursive: true }));

  function start(
    config: object,
    standardError: "pipe" | number = "pipe",
  ): { child: ChildProcess; out: string[]; err: string[]; ended: Promise<unknown[]> } {
    const file = join(folder, "sample.yaml");
    writeFileSync(file, JSON.stringify(config));
    const child = spawn(process.execPath, [SAMPLE, "--config", file], { stdio: ["ignore", "pipe", standardError] });
    children.add(child);
    const out: string[] = [];
    const err: string[] = [];
    child.stdout?.on("data", (chunk) => out.push(String(chunk)));
    child.stderr?.on("data", (chunk) => err.push(String(chunk)));
    return { child, out, err, ended: once(child, "close") };
  }
  async function until(out: string[], text: string): Promise<void> {
    for (let tries = 0; !out.join("").includes(text); tries++) {
      if (tries > 500) throw new Error(`"${text}" did not appear in: ${out.join("")}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  for (const signal of ["SIGTERM", "SIGINT"] as const)
    it(`stops in reverse order on ${signal}, with exit code 0`, async () => {
      const { child, out, ended } = start({ behaviour: "run" });
      await until(out, "started");
      child.kill(signal);
      expect(await ended).to.deep.equal([0, null]);
      expect(out.join("")).to.equal("started\nstopped second\nstopped first\n");
    });

  it("can be stopped while it starts", async () => {
    const { child, out, ended } = start({ behaviour: "slow-start" });
    await until(out, "starting");
    child.kill("SIGTERM");
    expect(await ended).to.deep.equal([0, null]);
    expect(out.join("")).to.contain("stopped second\nstopped first");
  });

  it("says why it cannot start in one line, stops what had started, and exits with 1", async () => {
    const { out, err, ended } = start({ behaviour: "refuse" });
    expect(await ended).to.deep.equal([1, null]);
    expect(err.join("")).to.equal("sample cannot start: there is no such thing\n");
    expect(out.join("")).to.equal("stopped second\nstopped first\n");
  });

  it("says what is wrong with its config in one line", async () => {
    const { err, ended } = start({ behaviour: "run", colour: "red" });
    expect(await ended).to.deep.equal([1, null]);
    expect(err.join("")).to.match(/^sample cannot start: config .*sample\.yaml: colour: .*\n$/);
  });

  it("shows a stack only for bugs", async () => {
    const { err, ended } = start({ behaviour: "bug" });
    expect(await ended).to.deep.equal([1, null]);
    expect(err.join("")).to.contain("TypeError: x is undefined\n    at ");
  });

  it("stops cleanly with exit code 1 when it fails", async () => {
    const { out, err, ended } = start({ behaviour: "fail", log: { level: "silent" } });
    expect(await ended).to.deep.equal([1, null]);
    expect(err.join("")).to.equal("sample has failed: the storage is gone\n");
    expect(out.join("")).to.contain("stopped second\nstopped first");
  });

  for (const behaviour of ["throw-later", "reject-later"])
    it(`exits with 1 on a bug that nobody caught: ${behaviour}`, async () => {
      const { err, ended } = start({ behaviour, log: { level: "silent" } });
      expect(await ended).to.deep.equal([1, null]);
      expect(err.join("")).to.contain("sample has failed: TypeError");
    });

  it("exits at stopTimeoutMs when a part does not stop, and at once on a second signal", async () => {
    const slow = start({ behaviour: "stuck", stopTimeoutMs: 300, log: { level: "silent" } });
    await until(slow.out, "started");
    slow.child.kill("SIGTERM");
    expect(await slow.ended).to.deep.equal([1, null]);
    expect(slow.err.join("")).to.contain("not all parts stopped within 300 ms");
    const twice = start({ behaviour: "stuck", stopTimeoutMs: 60_000 });
    await until(twice.out, "started");
    twice.child.kill("SIGTERM");
    await until(twice.err, "stops on SIGTERM");
    twice.child.kill("SIGTERM");
    expect(await twice.ended).to.deep.equal([1, null]);
  });

  describe("with its log on a full disk", () => {
    // Every write to it fails as on a full disk.
    function startWithFullLog(config: object): ReturnType<typeof start> {
      const full = openSync("/dev/full", "w");
      try {
        return start(config, full);
      } finally {
        closeSync(full);
      }
    }

    it("runs on, and stops cleanly", async () => {
      const { child, out, ended } = startWithFullLog({ behaviour: "log" });
      await until(out, "started");
      child.kill("SIGTERM");
      expect(await ended).to.deep.equal([0, null]);
    });

    for (const behaviour of ["refuse", "bug", "throw-later"])
      it(`ends with exit code 1 on ${behaviour}, as it would have`, async () => {
        expect(await startWithFullLog({ behaviour }).ended).to.deep.equal([1, null]);
      });

    it("keeps whole lines, and says how many are missing once there is room", async () => {
      const file = join(folder, "sample.log");
      const config = join(folder, "sample.yaml");
      writeFileSync(config, JSON.stringify({ behaviour: "log", log: { backlogSizeBytes: 8_192 } }));
      // The file may have 50 KiB; to empty it makes room again.
      const script = `trap '' XFSZ; ulimit -f 100; exec "$0" "$@" 2>> ${file}`;
      const child = spawn("/bin/sh", ["-c", script, process.execPath, SAMPLE, "--config", config]);
      children.add(child);
      const out: string[] = [];
      child.stdout.on("data", (chunk) => out.push(String(chunk)));
      const ended = once(child, "close");
      await until(out, "logged 150\n");
      const before = readFileSync(file, "utf8");
      truncateSync(file);
      await until(out, "logged 170\n");
      child.kill("SIGTERM");
      expect(await ended).to.deep.equal([0, null]);
      const lines = (before + readFileSync(file, "utf8")).trimEnd().split("\n");
      const written = lines.map((line) => JSON.parse(line) as { number?: number; lines?: number; message: string });
      const numbers = written.flatMap(({ number }) => number ?? []);
      expect(numbers.at(-1)).to.be.at.least(169);
      const missing = (numbers.at(-1) as number) + 1 - numbers.length;
      expect(missing).to.be.above(0);
      const losses = written.filter(({ message }) => message.startsWith("lines of this log are lost"));
      expect(losses.map(({ lines: count }) => count)).to.deep.equal([missing]);
    });
  });
});
