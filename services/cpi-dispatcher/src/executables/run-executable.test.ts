import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { CpiUnusableError, InvalidCpiResponseError } from "@diskmesh/cpi";
import { CancelledError, DiskFullError, InvalidArgumentError, InvalidStateError, TimeoutError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, SmallDisk, skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { environmentOf, processesOf } from "../testing/processes.js";
import { writeScript } from "../testing/test-dispatcher.js";
import { AnswerBudget } from "./answer.js";
import { type ExecutableLimits, runExecutable } from "./run-executable.js";
import { RunFolder } from "./run-folder.js";

const LIMITS: ExecutableLimits = {
  timeoutMs: 60_000,
  timeoutSetting: "executables.callTimeoutMs",
  cancelGraceMs: 1_000,
  maxRequestBytes: 1_000_000,
  maxAnswerBytes: 100_000,
  maxAnswerDepth: 10,
  maxAnswerValues: 1_000,
  maxLogLineLength: 1_000,
  maxLogLength: 5_000,
  maxStderrBytesPerSecond: 1_000_000,
  maxStderrBytes: 2_000_000,
};

const answerBudget = new AnswerBudget(5_000_000);

/** Returns a call of a CPI that is installed in `jobsFolder`. */
const callIn = (jobsFolder: string, runFolder: RunFolder) => ({
  jobsFolder,
  request: "{}",
  limits: LIMITS,
  runFolder,
  answerBudget,
  signal: new AbortController().signal,
  onLine: () => {},
});

describe("a CPI's process", () => {
  let folder: string;
  let runs: string;
  let runFolder: RunFolder;
  let lines: string[];

  beforeEach(async () => {
    folder = temporaryFolder();
    runs = join(folder, "runs");
    runFolder = await RunFolder.open(runs);
    lines = [];
  });

  // No test may leave a process or a run folder behind.
  afterEach(async () => {
    expect(readdirSync(runs)).to.deep.equal([]);
    expect(await processesOf(runs)).to.deep.equal([]);
  });

  const runWhole = (script: string, limits: Partial<ExecutableLimits> = {}, signal = new AbortController().signal) =>
    runExecutable({
      execPath: writeScript(folder, "cpi", script),
      jobsFolder: folder,
      request: '{"method":"info"}',
      limits: { ...LIMITS, ...limits },
      runFolder,
      answerBudget,
      signal,
      onLine: (line) => lines.push(line),
    });
  const run = async (...call: Parameters<typeof runWhole>) => (await runWhole(...call)).text;

  it("gets the request and its end on standard input, and answers on standard output", async () => {
    expect(await run("cat; echo; echo done")).to.equal('{"method":"info"}\ndone\n');
  });

  it("has only PATH, TMPDIR and HOME, no arguments, and its own TMPDIR", async () => {
    process.env.CANARY_OF_THE_PARENT = "tweet";
    const text = await run('env | grep -v "^PWD=\\|^_=\\|^SHLVL="; echo "ARGS=$#"; touch "$TMPDIR/left-over"');
    delete process.env.CANARY_OF_THE_PARENT;
    const names = text
      .trim()
      .split("\n")
      .map((line) => line.split("=")[0]);
    expect(names.sort()).to.deep.equal(["ARGS", "HOME", "PATH", "TMPDIR"]);
    expect(text).to.include("PATH=/usr/sbin:/usr/bin:/sbin:/bin\n").and.to.include("ARGS=0");
  });

  it("may end in any way: its exit status is ignored", async () => {
    expect(await run("echo answer; exit 3")).to.equal("answer\n");
    expect(await run("echo answer; kill -9 $$")).to.equal("answer\n");
  });

  it("may leave its request unread, even a large one", async () => {
    const execPath = writeScript(folder, "cpi", "echo answer");
    const request = "x".repeat(900_000);
    const call = {
      execPath,
      jobsFolder: folder,
      request,
      limits: LIMITS,
      runFolder,
      answerBudget,
      signal: new AbortController().signal,
    };
    expect(await runExecutable({ ...call, onLine: () => {} })).to.have.property("text", "answer\n");
  });

  it("is forwarded from standard error line by line while it works", async () => {
    const untilTold = `while [ ! -e ${folder}/go ]; do sleep 0.01; done`;
    const running = run(`echo one >&2; printf "two\\r\\nthr" >&2; ${untilTold}; printf "ee" >&2; echo answer`);
    await eventually(() => lines.length === 2);
    expect(lines).to.deep.equal(["one", "two"]);
    writeFileSync(join(folder, "go"), "");
    await running;
    expect(lines).to.deep.equal(["one", "two", "three"]);
  });

  it("may log without end: lines and log are truncated, and the call continues", async () => {
    await run('head -c 2000 /dev/zero | tr "\\0" x >&2; echo >&2; yes noise | head -n 100000 >&2; echo answer');
    expect(lines[0]).to.equal("x".repeat(1_000));
    expect(lines.at(-1)).to.match(/the rest of the log is dropped/);
    expect(lines.join("").length).to.be.below(6_000);
  });

  it("may log faster than the read rate: it waits, and no line is lost", async () => {
    const startedAtMs = performance.now();
    const script = 'head -c 600000 /dev/zero | tr "\\0" "x" | fold -w 99 >&2; echo answer; echo >&2; echo last >&2';
    const limits = { maxStderrBytesPerSecond: 100_000, maxLogLength: 1_000_000 };
    expect(await run(script, limits)).to.equal("answer\n");
    // Shorter than the rate allows for all bytes, because pipes hold a part of them.
    expect(performance.now() - startedAtMs).to.be.above(1_500);
    expect(lines.join("").length).to.equal(600_004);
    expect(lines.at(-1)).to.equal("last");
  });

  it("that exceeds the log limit is killed, and no more is read than the limit", async () => {
    const error = await rejection(run("yes >&2", { maxStderrBytesPerSecond: 1_000_000, maxStderrBytes: 1_500_000 }));
    expect(error).to.be.instanceOf(InvalidCpiResponseError).with.property("outcome", "unknown");
    expect(error.message).to.include("more than 1500000 bytes to standard error and was killed");
    expect(lines.at(-1)).to.match(/the rest of the log is dropped/);
    expect(lines.length).to.be.below(100);
  });

  it("may leave behind a process that floods its log: its answer counts", async function () {
    skipWithout(this, "setsid");
    const flood = `setsid sh -c 'echo $$ >&2; touch ${folder}/started; exec yes >&2' > /dev/null &`;
    expect(await run(`${flood} while [ ! -e ${folder}/started ]; do sleep 0.01; done; echo answer`)).to.equal(
      "answer\n",
    );
    await eventually(async () => (await processesOf(runs)).length === 0);
  });

  for (const [what, script, says] of [
    ["says nothing", "exit 0", "exit code 0"],
    ["crashes", "kill -SEGV $$", "signal SIGSEGV"],
    ["says too much", "yes | head -c 200000", "the answer has more than 100000 bytes"],
    ["never stops answering", "yes", "the answer has more than 100000 bytes"],
    ["answers a deep nest", "yes [ | head -n 100", "more than 10 levels deep"],
    ["answers lists without end", "yes [], | head -n 5000", "more than 1000 values"],
  ] as const)
    it(`that ${what} -> InvalidCpiResponseError with the reason`, async () => {
      const error = await rejection(run(script));
      expect(error).to.be.instanceOf(InvalidCpiResponseError).with.property("outcome", "unknown");
      expect(error.message)
        .to.match(/^Invalid CPI response - /)
        .and.include(says);
    });

  it("with the longest answer when the memory budget is exceeded -> only that call fails", async () => {
    const long = `head -c 4000000 /dev/zero; echo there >&2; sleep 100`;
    const short = "head -c 2000000 /dev/zero; while [ ! -e $0.go ]; do sleep 0.01; done";
    const limits = { maxAnswerBytes: 10_000_000 };
    const failing = rejection(run(long, limits));
    await eventually(() => lines.length > 0);
    writeFileSync(join(folder, "cpi.sh.go"), "");
    const running = run(short, limits);
    expect((await failing).message).to.match(/all concurrent answers exceed \d+ bytes, and this answer is the longest/);
    expect(await running).to.have.length(2_000_000);
    // The memory budget is free again.
    expect(await run("head -c 4500000 /dev/zero", limits)).to.have.length(4_500_000);
  });

  it("that cannot be run -> CpiUnusableError that names the file", async () => {
    const call = callIn(folder, runFolder);
    writeFileSync(join(folder, "plain"), "no program", { mode: 0o644 });
    for (const execPath of ["/nowhere/cpi", folder, join(folder, "plain")]) {
      const error = await rejection(runExecutable({ ...call, execPath }));
      expect(error).to.be.instanceOf(CpiUnusableError).with.property("message").that.includes(execPath);
    }
  });

  it("is not started for a request that is too long or cancelled", async () => {
    await rejection(run("touch ran", { maxRequestBytes: 3 }), InvalidArgumentError);
    await rejection(run("touch ran", {}, AbortSignal.abort(new CancelledError("up"))), CancelledError);
  });

  it("is killed at its timeout, with all its child processes", async () => {
    const startedAtMs = performance.now();
    const error = await rejection(run("sleep 100 & sleep 100 & trap '' TERM; sleep 100", { timeoutMs: 300 }));
    expect(error).to.be.instanceOf(TimeoutError).with.property("message").that.includes("executables.callTimeoutMs");
    expect(performance.now() - startedAtMs).to.be.below(LIMITS.timeoutMs);
  });

  it("is killed when its caller gives up, with all its child processes", async () => {
    const controller = new AbortController();
    const running = rejection(run('sleep 100 & echo "$!" >&2; wait', {}, controller.signal));
    await eventually(() => lines.length === 1);
    const startedAtMs = performance.now();
    controller.abort(new CancelledError("enough"));
    expect(await running).to.have.property("message", "enough");
    expect(performance.now() - startedAtMs).to.be.below(LIMITS.timeoutMs);
    expect(environmentOf(Number(lines[0])), "the orphan lives").to.equal("");
  });

  describe("whose caller gives up", () => {
    const givenUp = async (script: string, cancelGraceMs: number) => {
      const controller = new AbortController();
      const running = runWhole(script, { cancelGraceMs }, controller.signal);
      const settled = running.catch((error: unknown) => error);
      await eventually(() => lines.length > 0);
      const reason = new CancelledError("enough");
      controller.abort(reason);
      return { settled: await settled, reason };
    };
    const UNTIL_TOLD = "echo ready >&2; while true; do sleep 0.05; done";

    it("may clean up, and an answer that it had completed counts", async () => {
      const { settled, reason } = await givenUp(`trap 'echo done; exit 0' TERM; ${UNTIL_TOLD}`, 60_000);
      expect(settled).to.deep.equal({ text: "done\n", exitCode: 0, givenUp: reason });
    });

    it("and that continues -> it is killed, and the caller gets its own reason", async () => {
      // Long enough for a busy machine to deliver the signal.
      const { settled, reason } = await givenUp(`trap 'echo told >&2' TERM; ${UNTIL_TOLD}`, 4_000);
      expect(settled).to.equal(reason);
      expect(lines).to.include("told");
    });
  });

  it("ends its orphans with itself, even those that hold its outputs open", async () => {
    const startedAtMs = performance.now();
    expect(await run('(sleep 100 & sleep 100) & echo "$!" >&2; echo answer')).to.equal("answer\n");
    expect(performance.now() - startedAtMs).to.be.below(LIMITS.timeoutMs);
  });

  describe("whose answer arrives while this process cannot read", () => {
    /** Blocks this process until the condition holds, and then for `thenMs` more. */
    const blockUntil = async (condition: () => boolean, thenMs: number): Promise<void> => {
      // After this turn of the event loop, timers run before pending reads.
      await nextTurn();
      for (const untilMs = performance.now() + 120_000; !condition() && performance.now() < untilMs; ) block(1);
      block(thenMs);
    };
    const block = (timeMs: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, timeMs);
    const file = (name: string): string => join(folder, name);
    /** Returns true once the exit status was collected, which shows that the exit was noticed. */
    const isGone = (pid: number): boolean => !existsSync(`/proc/${pid}`);

    for (const [who, start] of [
      ["a process outside its group", "setsid"],
      ["a process of its group", "nohup"],
    ] as const)
      it(`from ${who} after its exit -> the answer is accepted`, async function () {
        skipWithout(this, start);
        const untilThereIs = (name: string) => `while [ ! -e ${file(name)} ]; do sleep 0.01; done`;
        const write = `touch ${file("started")}; ${untilThereIs("go")}; echo answer; touch ${file("written")}; sleep 100`;
        writeFileSync(file("writer"), write);
        const running = run(
          `${start} sh ${file("writer")} 2> /dev/null & ${untilThereIs("started")}; echo "$! $$" >&2`,
        );
        await eventually(() => lines.length === 1);
        const [writer, leader] = (lines[0] as string).split(" ").map(Number) as [number, number];
        try {
          await eventually(() => isGone(leader), { everyMs: 1 });
          writeFileSync(file("go"), "");
          await blockUntil(() => existsSync(file("written")), 1_000);
          expect(await running).to.equal("answer\n");
        } finally {
          if (start === "setsid") process.kill(-writer, "SIGKILL");
          // A killed process may exist for a moment longer.
          await eventually(async () => expect(await processesOf(runs)).to.deep.equal([]));
        }
      });

    it("and its timeout passes meanwhile -> the answer is accepted, because it was in time", async () => {
      const script = `echo ready >&2; while [ ! -e ${file("go")} ]; do sleep 0.01; done; echo answer; touch ${file("written")}`;
      const running = run(script, { timeoutMs: 5_000 });
      await eventually(() => lines.length === 1);
      writeFileSync(file("go"), "");
      await blockUntil(() => existsSync(file("written")), 5_500);
      expect(await running).to.equal("answer\n");
    });
  });

  it("may leave behind a process that left its group on purpose, such as a VM", async function () {
    skipWithout(this, "setsid");
    // Waits until the process has left the group, because it would otherwise be killed with the group.
    const leave = `env -i setsid sh -c 'echo $$ >&2; touch ${folder}/left; exec sleep 100' &`;
    expect(await run(`${leave} while [ ! -e ${folder}/left ]; do sleep 0.01; done; echo answer`)).to.equal("answer\n");
    const vm = Number(lines[0]);
    process.kill(vm, 0);
    process.kill(vm, "SIGKILL");
  });
});

describe("the run folder", () => {
  it("kills the processes of a killed dispatcher, recorded or not, and no others", async () => {
    const folder = temporaryFolder();
    const runs = join(folder, "runs");
    const runFolder = await RunFolder.open(runs);
    const pids: number[] = [];
    const script = writeScript(folder, "cpi", 'sleep 100 & echo "$!" >&2; exec sleep 100');
    const bystander = writeScript(folder, "bystander", 'unset TMPDIR; echo "$$" >&2; exec sleep 100');
    const controller = new AbortController();
    const start = (execPath: string) =>
      runExecutable({
        execPath,
        jobsFolder: folder,
        request: "{}",
        limits: LIMITS,
        runFolder,
        answerBudget,
        signal: controller.signal,
        onLine: (line) => pids.push(Number(line)),
      }).catch(() => {});
    const calls = [start(script), start(script), start(bystander)];
    await eventually(() => pids.length === 3);
    // The bystander shows the environment of its start until it has executed a program with another environment.
    await eventually(() => pids.filter((pid) => environmentOf(pid).includes(runs)).length === 2);
    const names = readdirSync(runs);
    expect(names).to.have.length(3);
    for (const name of names) expect(readFileSync(join(runs, name, "group"), "utf8")).to.match(/^\d+$/);
    // Simulates a dispatcher that died before it recorded the process group.
    writeFileSync(join(runs, names[0] as string, "group"), "");
    await RunFolder.open(runs);
    expect(readdirSync(runs)).to.deep.equal([]);
    const alive = () => pids.filter((pid) => environmentOf(pid) !== "");
    await eventually(() => expect(alive(), "only the one that is not marked").to.have.length(1));
    controller.abort(new CancelledError("enough"));
    await Promise.all(calls);
  });

  it("without space for a run -> no CPI keeps running, and the error says why", async function () {
    using disk = SmallDisk.mount(1024 * 1024);
    if (disk === undefined) skipBecause(this, "no file system can be mounted here");
    const runs = join(disk.folder, "runs");
    const runFolder = await RunFolder.open(runs);
    disk.fill();
    const folder = temporaryFolder();
    const call = callIn(folder, runFolder);
    const execPath = writeScript(folder, "cpi", "sleep 100");
    await rejection(
      runExecutable({ ...call, execPath }),
      DiskFullError,
      `the disk that holds ${runs} (executables.runFolder) is full: free space there`,
    );
    expect(readdirSync(runs)).to.deep.equal([]);
    expect(await processesOf(runs)).to.deep.equal([]);
  });

  it("is refused when its path is a file or a link, even to a directory", async () => {
    const folder = temporaryFolder();
    const file = join(folder, "file");
    writeFileSync(file, "");
    const link = join(folder, "link");
    symlinkSync(folder, link);
    for (const path of [file, link])
      await rejection(
        RunFolder.open(path),
        InvalidStateError,
        `${path} is not a directory, or belongs to another user: configure another executables.runFolder`,
      );
  });
});
