// Runs test files one after another in one process, so that shared imports are loaded once. Reports each result to the
// parent process.
import { setTimeout as sleep } from "node:timers/promises";
import Mocha from "mocha";

const { showDiff, generateDiff } = Mocha.reporters.Base;
const { stringify } = Mocha.utils;
const LEFT_OPEN_LIMIT_MS = 10_000;

/** Pattern of a skipped test's title, which contains the reason; see skipBecause in packages/testkit. */
const REASON = /\[skipped: .+\]/;
// Opens these streams now, because their first use must not count as a resource that a test left open.
for (const stream of [process.stdout, process.stderr]) stream.write("");

process.once("disconnect", () => process.exit());
process.on("message", async ({ file, options, titles }) => {
  const before = process.getActiveResourcesInfo();
  const result = { file, passed: 0, skipped: [], skippedTitles: [], failures: [] };
  const fail = (title, error) => {
    const difference = showDiff(error) ? generateDiff(stringify(error.actual), stringify(error.expected)) : "";
    result.failures.push({ title, error: `${error?.stack ?? error}${difference}` });
    // Prints the failure before the remaining tests of the file run.
    console.log(`failed: ${title}\n${result.failures.at(-1).error}`);
  };
  await run(file, { options, titles }, result, fail).catch((error) => fail("could not be loaded", error));
  // A failed test may not have closed its resources, so they are not reported.
  const left = result.failures.length > 0 ? [] : await leftOpen(before);
  if (left.length > 0) fail("left open after its tests", [...left, ...openSockets()].join(", "));
  process.send(result);
});

async function run(file, { options, titles }, result, fail) {
  const mocha = new Mocha({ ...options, reporter: class {} }).addFile(file);
  await mocha.loadFilesAsync();
  // Titles before the tests run: a skip appends its reason.
  const titleOf = new Map();
  mocha.suite.eachTest((test) => titleOf.set(test, test.fullTitle()));
  if (titles !== undefined) keepOnly(titles, titleOf, fail);
  const skip = (test) => {
    const title = test.fullTitle();
    if (!REASON.test(title)) return fail(title, "is skipped and does not say why");
    result.skipped.push(title);
    result.skippedTitles.push(titleOf.get(test));
  };
  await new Promise((resolve) =>
    mocha
      .run(resolve)
      .on("hook", (hook) => process.send({ begun: hook.fullTitle() }))
      .on("test", (test) => process.send({ begun: test.fullTitle() }))
      .on("pass", () => result.passed++)
      .on("pending", skip)
      .on("fail", (test, error) => fail(test.fullTitle(), error)),
  );
  mocha.dispose();
}

/** Removes the tests without one of the titles. Fails for a title that no test has. */
function keepOnly(titles, titleOf, fail) {
  const found = [...titleOf.values()];
  for (const title of titles)
    if (!found.includes(title)) fail(title, "is skipped, and has another title when run again");
  for (const [test, title] of titleOf)
    if (!titles.includes(title)) test.parent.tests = test.parent.tests.filter((one) => one !== test);
}

/** Returns resources that are still open after some time, and would keep a process alive that runs only this file. */
async function leftOpen(before) {
  for (const untilMs = performance.now() + LEFT_OPEN_LIMIT_MS; ; await sleep(20)) {
    const left = process.getActiveResourcesInfo();
    for (const resource of before) if (left.includes(resource)) left.splice(left.indexOf(resource), 1);
    if (left.length === 0 || performance.now() > untilMs) return left;
  }
}

/** Returns the remote addresses of open sockets, by which their owners can be found. */
function openSockets() {
  const open = process._getActiveHandles().filter(({ remoteAddress }) => remoteAddress !== undefined);
  return open.map((socket) => `from port ${socket.localPort} to ${socket.remoteAddress}:${socket.remotePort}`);
}
