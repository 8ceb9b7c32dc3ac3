import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createAuthority } from "@diskmesh/pki";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { EXIT_CODES } from "../config/exit-codes.js";

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
  interface Line {
    readonly level: string;
    readonly message: string;
    readonly error?: { readonly stack: string };
  }
  // Parses every line of standard error as a log line.
  const linesOf = (err: string[]): Line[] =>
    err
      .join("")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Line);
  const messages = (err: string[]) => linesOf(err).map(({ message }) => message);
  const lastOf = (err: string[]) => linesOf(err).at(-1) as Line;
  async function until(out: string[], text: string): Promise<void> {
    await eventually(() => {
      if (!out.join("").includes(text)) throw new Error(`"${text}" did not appear in: ${out.join("")}`);
    });
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

  it("logs why it cannot start in one line, stops what had started, and exits with 1", async () => {
    const { out, err, ended } = start({ behaviour: "refuse" });
    expect(await ended).to.deep.equal([1, null]);
    expect(messages(err)).to.deep.equal(["sample cannot start: there is no such thing"]);
    expect(out.join("")).to.equal("stopped second\nstopped first\n");
  });

  it("logs the problem of its config in one line", async () => {
    const { err, ended } = start({ behaviour: "run", colour: "red" });
    expect(await ended).to.deep.equal([78, null]);
    expect(messages(err)).to.have.length(1);
    expect(messages(err)[0]).to.match(/^sample cannot start: config .*sample\.yaml: colour: /);
  });

  it("logs the name of a corrupt file of metrics.tls in one line", async () => {
    const files = ["ca.pem", "cert.pem", "key.pem"].map((name) => join(folder, name));
    const [caFile, certFile, keyFile] = files as [string, string, string];
    const { certPem, keyPem } = await createAuthority({ commonName: "any", validDays: 1 });
    for (const file of [caFile, certFile]) writeFileSync(file, certPem);
    writeFileSync(keyFile, keyPem, { mode: 0o600 });
    writeFileSync(certFile, certPem.slice(0, 100));
    const metrics = { listen: { host: "127.0.0.1", port: 1 }, tls: { caFile, certFile, keyFile } };
    const { err, ended } = start({ behaviour: "run", metrics });
    expect(await ended).to.deep.equal([1, null]);
    const why = `metrics.tls.certFile ${certFile} has no readable certificate in PEM`;
    expect(messages(err)).to.deep.equal([
      `sample cannot start: ${why}; put a complete file there, without a passphrase`,
    ]);
    expect(lastOf(err)).to.include({ level: "fatal", exitCode: 1 });
  });

  it("shows a stack only for bugs", async () => {
    const { err, ended } = start({ behaviour: "bug" });
    expect(await ended).to.deep.equal([70, null]);
    expect(messages(err)).to.deep.equal(["sample cannot start: TypeError: x is undefined"]);
    expect(lastOf(err)).to.include({ level: "fatal", service: "sample", exitCode: 70 });
    expect(lastOf(err).error?.stack).to.contain("TypeError: x is undefined\n    at ");
  });

  it("stops cleanly with exit code 1 when it fails", async () => {
    const { out, err, ended } = start({ behaviour: "fail", log: { level: "silent" } });
    expect(await ended).to.deep.equal([1, null]);
    expect(messages(err)).to.deep.equal(["sample has failed: the storage is gone"]);
    expect(out.join("")).to.contain("stopped second\nstopped first");
  });

  for (const behaviour of ["throw-later", "reject-later"])
    it(`exits with 70 on an uncaught bug: ${behaviour}`, async () => {
      const { err, ended } = start({ behaviour, log: { level: "silent" } });
      expect(await ended).to.deep.equal([70, null]);
      expect(messages(err)[0]).to.match(/^sample has failed: TypeError: (later|rejected)$/);
    });

  it("exits after 4.5 s when a part does not stop, and at once on a second signal", async function () {
    leaveToVerify(this);
    const slow = start({ behaviour: "stuck", log: { level: "silent" } });
    await until(slow.out, "started");
    slow.child.kill("SIGTERM");
    expect(await slow.ended).to.deep.equal([3, null]);
    const limit = "did not stop within 4500 ms";
    expect(messages(slow.err)).to.deep.equal([`sample was cut short: it waited for stuck (its valve) and ${limit}`]);
    const twice = start({ behaviour: "stuck" });
    await until(twice.out, "started");
    twice.child.kill("SIGTERM");
    await until(twice.err, "sample stop requested by SIGTERM");
    await until(twice.err, "sample stop delayed by stuck (its valve)");
    twice.child.kill("SIGTERM");
    expect(await twice.ended).to.deep.equal([3, null]);
    expect(messages(twice.err).at(-1)).to.match(/a second time and exits at once; it waited for stuck \(its valve\)$/);
  });

  it("reloads its log level on SIGHUP, names keys that need a restart, and keeps its config when the new one is wrong", async () => {
    const { child, out, err, ended } = start({ behaviour: "run", log: { level: "error" } });
    await until(out, "started");
    const file = join(folder, "sample.yaml");
    const write = (config: object) => writeFileSync(file, JSON.stringify(config));
    write({
      behaviour: "other",
      log: { level: "warn" },
      telemetry: { otlpEndpoint: "http://127.0.0.1:1" },
      rpc: { maxConnectionsPerAddress: 5 },
    });
    child.kill("SIGHUP");
    await until(
      err,
      "config reloaded: log level warn; restart needed for behaviour, rpc.maxConnectionsPerAddress, telemetry.otlpEndpoint",
    );
    write({ behaviour: "run", log: { level: "loud" } });
    child.kill("SIGHUP");
    await until(err, "config reload failed");
    expect(err.join("")).to.contain("log.level: ");
    write({ behaviour: "run", log: { level: "info" } });
    child.kill("SIGHUP");
    await until(err, 'config reloaded: log level info"');
    child.kill("SIGTERM");
    expect(await ended).to.deep.equal([0, null]);
    expect(messages(err).at(-1)).to.equal("sample stopped");
  });

  it("redacts a secret from a file, and warns when the file is world-readable", async () => {
    const secret = join(folder, "secret");
    writeFileSync(secret, "hunter2-hunter2\n");
    chmodSync(secret, 0o644);
    const { child, out, err, ended } = start({ behaviour: "tell-phrase", phraseFile: secret });
    await until(out, "started");
    child.kill("SIGTERM");
    await ended;
    expect(messages(err)[0]).to.match(/^phraseFile: all users of this machine may read .*secret, .*chmod o-rwx/);
    expect(err.join("")).to.contain('"text":"it is <redacted>"');
    expect(err.join("")).not.to.contain("hunter2");
  });

  it("documents each exit code in docs/operate/health.md", () => {
    const page = readFileSync(fileURLToPath(new URL("../../../../docs/operate/health.md", import.meta.url)), "utf8");
    const [, table = ""] = /^\| Exit code \| The process ended because(.*?)\n\n/ms.exec(page) ?? [];
    const listed = [...table.matchAll(/^\| +(\d+) +\| .+ \|$/gm)].map(([, code]) => Number(code));
    expect(listed).to.deep.equal(Object.values(EXIT_CODES));
  });

  describe("with its log on a full disk", () => {
    // Makes every write to the log fail as on a full disk.
    function startWithFullLog(config: object): ReturnType<typeof start> {
      const full = openSync("/dev/full", "w");
      try {
        return start(config, full);
      } finally {
        closeSync(full);
      }
    }

    it("keeps running, and stops cleanly", async () => {
      const { child, out, ended } = startWithFullLog({ behaviour: "log" });
      await until(out, "started");
      child.kill("SIGTERM");
      expect(await ended).to.deep.equal([0, null]);
    });

    for (const [behaviour, code] of [
      ["refuse", 1],
      ["bug", 70],
      ["throw-later", 70],
    ] as const)
      it(`exits with code ${code} on ${behaviour}, as with space`, async function () {
        leaveToVerify(this);
        expect(await startWithFullLog({ behaviour }).ended).to.deep.equal([code, null]);
      });

    it("keeps whole lines, and logs the number of lost ones once there is space", async () => {
      const file = join(folder, "sample.log");
      const config = join(folder, "sample.yaml");
      writeFileSync(config, JSON.stringify({ behaviour: "log" }));
      // `ulimit -f` limits the file to 50 KiB; truncating the file frees space again.
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
      // The process may not have noticed the free space yet.
      await eventually(() => expect(readFileSync(file, "utf8")).to.match(/lost to a full disk.*\n.*"number":/));
      child.kill("SIGTERM");
      expect(await ended).to.deep.equal([0, null]);
      const lines = (before + readFileSync(file, "utf8")).trimEnd().split("\n");
      const written = lines.map((line) => JSON.parse(line) as { number?: number; lines?: number; message: string });
      const numbers = written.flatMap(({ number }) => number ?? []);
      expect(numbers.at(-1)).to.be.at.least(169);
      const missing = (numbers.at(-1) as number) + 1 - numbers.length;
      expect(missing).to.be.above(0);
      const losses = written.filter(({ message }) => message.startsWith("log lines lost to a full disk"));
      expect(losses.map(({ lines: count }) => count)).to.deep.equal([missing]);
    });
  });
});
