// Runs test files one after another, so that what they import is loaded once, and tells its parent how each went. Its
// arguments are mocha's.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import Mocha from "mocha";
import cli from "mocha/lib/cli/options.cjs";

const { EVENT_TEST_PASS, EVENT_TEST_FAIL, EVENT_TEST_PENDING } = Mocha.Runner.constants;
const { showDiff, generateDiff } = Mocha.reporters.Base;
const { stringify } = Mocha.utils;
const LEFT_OPEN_LIMIT_MS = 10_000;
const TICKS_PER_SECOND = 100;

const inCamelCase = ([name, value]) => [name.replace(/-(.)/g, (_, letter) => letter.toUpperCase()), value];
const options = Object.fromEntries(Object.entries(cli.loadOptions(process.argv.slice(2))).map(inCamelCase));
// Opened by their first use, and then of no test's opening.
for (const stream of [process.stdout, process.stderr]) stream.write("");

process.once("disconnect", () => process.exit());
process.on("message", async ({ file }) => {
  const before = process.getActiveResourcesInfo();
  const result = { passed: 0, skipped: [], failures: [], cpuSeconds: -cpuSeconds() };
  await run(file, result).catch((error) => fail(result, "could not be loaded", error));
  const left = await leftOpen(before);
  // A test that failed may not have come to closing what it opened.
  if (left.length > 0 && result.failures.length === 0)
    fail(result, "left open after its tests", [...left, ...openSockets()].join(", "));
  result.cpuSeconds += cpuSeconds();
  process.send(result);
});

/** How long this process, and whatever it started and has ended, had a processor. */
function cpuSeconds() {
  const ticks = readFileSync("/proc/self/stat", "utf8").split(" ").slice(13, 17);
  return ticks.reduce((sum, some) => sum + Number(some), 0) / TICKS_PER_SECOND;
}

async function run(file, result) {
  const mocha = new Mocha({ ...options, reporter: class {} }).addFile(file);
  await mocha.loadFilesAsync();
  await new Promise((resolve) =>
    mocha
      .run(resolve)
      .on(EVENT_TEST_PASS, () => result.passed++)
      .on(EVENT_TEST_PENDING, (test) => result.skipped.push(test.fullTitle()))
      .on(EVENT_TEST_FAIL, (test, error) => fail(result, test.fullTitle(), error)),
  );
  mocha.dispose();
}

function fail({ failures }, title, error) {
  const difference = showDiff(error) ? generateDiff(stringify(error.actual), stringify(error.expected)) : "";
  failures.push({ title, error: `${error?.stack ?? error}${difference}` });
  // Whoever waits for the other tests of the file is told now.
  console.log(`failed: ${title}\n${failures.at(-1).error}`);
}

/** What would keep a process alive that ran this file alone, once it has had time to end. */
async function leftOpen(before) {
  for (const untilMs = performance.now() + LEFT_OPEN_LIMIT_MS; ; await sleep(20)) {
    const left = process.getActiveResourcesInfo();
    for (const resource of before) if (left.includes(resource)) left.splice(left.indexOf(resource), 1);
    if (left.length === 0 || performance.now() > untilMs) return left;
  }
}

/** Where sockets lead that are open: what tells whose they are. */
function openSockets() {
  return process._getActiveHandles().flatMap(({ remoteAddress, remotePort, localPort }) => {
    return remoteAddress === undefined ? [] : [`from port ${localPort} to ${remoteAddress}:${remotePort}`];
  });
}
