// Runs the trials where device-mapper is: as the only process of a virtual machine, or on this machine. It answers each
// line `{"suite", "title"}` of the given port with the result of that one test. A test of two machines writes lines
// `{"call", "args"}` before, which the process at the other end carries to the other machine.
import { spawnSync } from "node:child_process";
import { createReadStream, createWriteStream, mkdirSync, openSync, readdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { release } from "node:os";
import { createInterface } from "node:readline";
import { inspect } from "node:util";
import { config } from "chai";
import Mocha from "mocha";
import { liveHost } from "./trials/between-life.js";
import { live } from "./trials/life.js";
import { answerCall, callThrough } from "./trials/machine-calls.js";
import { liveMove } from "./trials/moves/life.js";
import { takeTally } from "./trials/tally.js";

/** Suites by name. `smoke` belongs to `npm run verify`; `npm run vm -- all` runs the others, too. */
const SUITES: Readonly<Record<string, () => Promise<unknown>>> = {
  smoke: async () => [await import("./trials/smoke.js"), await import("./trials/killed.js")],
  fence: async () => [await import("./trials/fence.js"), await import("./trials/flushes.js")],
  tables: async () => [await import("./trials/tables.js"), await import("./trials/cache.js")],
  engine: async () => [
    await import("./trials/engine.js"),
    await import("./trials/engine-fences.js"),
    await import("./trials/engine-flushes.js"),
    await import("./trials/drive-errors.js"),
  ],
  turns: () => import("./trials/turns.js"),
  requests: async () => [await import("./trials/requests.js"), await import("./trials/remote-cost.js")],
  fences: () => import("./trials/many-fences.js"),
  kills: () => import("./trials/engine-kills.js"),
  moves: async () => [
    await import("./trials/moves/drives.js"),
    await import("./trials/moves/kills.js"),
    await import("./trials/moves/between.js"),
    await import("./trials/moves/detached.js"),
  ],
  between: async () => [await import("./trials/between.js"), await import("./trials/between-kills.js")],
  mesh: () => import("./trials/mesh/story.js"),
  sanity: () => import("./trials/mesh/sanity.js"),
  wireguard: () => import("./trials/wireguard.js"),
  machines: async () => [await import("./trials/machines/power.js"), await import("./trials/machines/chaos.js")],
};

const TEST_TIMEOUT_MS = 600_000;
// Shows the whole of what a program said.
config.truncateThreshold = 0;

async function loadSuite(load: () => Promise<unknown>): Promise<Mocha> {
  const mocha = new Mocha({ timeout: TEST_TIMEOUT_MS, reporter: class {} as never, checkLeaks: false });
  mocha.cleanReferencesAfterRun(false);
  mocha.suite.emit("pre-require", globalThis, "", mocha);
  await load();
  return mocha;
}

/** Prints the titles of the tests of each suite. */
async function printTitles(): Promise<void> {
  const titles: Record<string, string[]> = {};
  for (const [name, load] of Object.entries(SUITES)) {
    const ofSuite: string[] = [];
    (await loadSuite(load)).suite.eachTest((test: Mocha.Test) => ofSuite.push(test.fullTitle()));
    titles[name] = ofSuite;
  }
  process.stdout.write(JSON.stringify(titles));
}

/** Runs the test with this title, and returns the message of its failure, or its hook's; undefined when it passed. */
async function runTest(mocha: Mocha, title: string): Promise<string | undefined> {
  let failure: string | undefined = "the suite has no test of this title";
  mocha.grep(new RegExp(`^${title.replace(/[^\w ]/g, "\\$&")}$`));
  await new Promise((resolve) =>
    mocha
      .run(resolve)
      .on("pass", () => {
        failure = undefined;
      })
      .on("fail", (_test, error) => {
        failure = inspect(error);
      }),
  );
  return failure;
}

/** Mounts the kernel's file systems and loads the modules, which the initramfs has in their order. */
function becomeInit(): void {
  process.env.PATH = "/bin";
  const mounts = { proc: "/proc", sysfs: "/sys", devtmpfs: "/dev", tmpfs: "/tmp" };
  for (const [type, folder] of Object.entries(mounts)) {
    mkdirSync(folder, { recursive: true });
    spawnSync("mount", ["-t", type, type, folder], { stdio: "inherit" });
  }
  for (const name of readdirSync("/modules").sort()) spawnSync("insmod", [`/modules/${name}`], { stdio: "inherit" });
  spawnSync("mount", ["-t", "configfs", "configfs", "/sys/kernel/config"], { stdio: "inherit" });
  spawnSync("ip", ["link", "set", "lo", "up"], { stdio: "inherit" });
  // Shows all messages of the kernel from here on.
  writeFileSync("/proc/sys/kernel/printk", "8");
}

/** Opens the port of the virtual machine, or the socket at `path`. */
function openPort(path: string | undefined): {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
} {
  if (path !== undefined) {
    const socket = connect(path);
    return { input: socket, output: socket };
  }
  const [port = "no port"] = readdirSync("/sys/class/virtio-ports");
  // The port can be opened once.
  const fd = openSync(`/dev/${port}`, "r+");
  return { input: createReadStream("", { fd }), output: createWriteStream("", { fd }) };
}

/** Has the kernel print the tasks that wait for a drive. */
function showBlockedTasks(): void {
  writeFileSync("/proc/sysrq-trigger", "w");
}

async function serve(path: string | undefined): Promise<void> {
  if (process.pid === 1) becomeInit();
  const { input, output } = openPort(path);
  const say = (answer: object) => output.write(`${JSON.stringify(answer)}\n`);
  say({ kernel: release() });
  const loaded = new Map<string, Mocha>();
  const lines = createInterface({ input })[Symbol.asyncIterator]();
  callThrough(async (call) => {
    say(call);
    return JSON.parse((await lines.next()).value);
  });
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const { suite, title, ...call } = JSON.parse(line.value);
    if ("call" in call) {
      say(await answerCall(call));
      continue;
    }
    const load = SUITES[suite];
    if (load === undefined) throw new Error(`there is no suite ${suite}`);
    const mocha = loaded.get(suite) ?? (await loadSuite(load));
    loaded.set(suite, mocha);
    const failure = await runTest(mocha, title);
    if (failure !== undefined && process.pid === 1) showBlockedTasks();
    say({ title, failure, tally: takeTally() });
  }
}

const [mode, path = "", lastCall] = process.argv.slice(2);
if (mode === "titles") await printTitles();
else if (mode === "life") await live(path, Number(lastCall));
else if (mode === "move") await liveMove(path, Number(lastCall));
else if (mode === "host") await liveHost(path, lastCall ?? "");
else await serve(path || undefined);
