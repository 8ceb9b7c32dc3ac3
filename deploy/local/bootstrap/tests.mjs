import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { builtFiles } from "./build.mjs";
import { runInProcess, running } from "./test-process.mjs";
import { touchedTests } from "./touched-tests.mjs";

const PROGRESS_EVERY_MS = 15_000;
/** Time in ms after which a running test is printed periodically, because it may hang. */
const LONG_TEST_MS = 60_000;
/** Maximum lines of each failure in the summary at the end. */
const MAX_FAILURE_LINES = 60;
// Number of test processes. More than CPUs, because tests that start processes mostly wait.
const JOBS = Math.max(2, Math.min(8, availableParallelism() * 3));

/**
 * Tests that also run on a newer LTS of Node, because they most likely break there: HTTP/2, the journal's files, TLS and
 * sockets. Slow tests of processes and of databases use these in the same way.
 */
const RUN_ON_LTS = /^packages\/(?:rpc|tablet\/dist\/embedded)\/|^services\/disk-agent\/dist\/nbd\//;

/** Longest tests, started first, so that none of them runs alone at the end. */
const BEGUN_FIRST =
  /^test\/dist\/(?:operations|sim\/|kill-test|reference-cpi|agent-life)|\/mongo-storage\.test|\/crash-places|\/dist\/start\.test/;

/**
 * Runs compiled test files with Mocha in several processes; returns the exit code. With `--changed`, runs the test
 * files affected by the working tree. A name among `args` selects test files whose path contains it; the other `args`
 * go to Mocha. `options.verifying` is set by `npm run verify`: the failed checks, a PATH with almost no programs for a
 * first run, and optionally another version of Node for some tests.
 */
export async function runTests(root, args, options = {}) {
  const { isQuick, verifying, fileTimeoutMs = 20 * 60_000 } = options;
  // Mocha reads its settings from the root folder.
  process.chdir(root);
  const { loadOptions } = (await import("mocha/lib/cli/options.cjs")).default;
  const { _: names, ...given } = loadOptions(args.filter((arg) => arg !== "--changed"));
  const inCamelCase = ([name, value]) => [name.replace(/-(.)/g, (_, letter) => letter.toUpperCase()), value];
  const mochaOptions = Object.fromEntries(Object.entries(given).map(inCamelCase));
  // Quick mode shortens long tests, but not selected tests and not in CI.
  process.env.DISKMESH_QUICK_RUN = String(Boolean(isQuick) && args.length === 0 && !process.env.CI);
  // Folder for artifacts that several test files share and the first one creates.
  process.env.DISKMESH_RUN_FOLDER = mkdtempSync(join(tmpdir(), "diskmesh-run-"));
  process.once("exit", () => rmSync(process.env.DISKMESH_RUN_FOLDER, { recursive: true, force: true }));
  const all = builtFiles(root).filter((file) => file.endsWith(".test.js"));
  const files = (args.includes("--changed") ? touchedTests(root, all) : all)
    .map((file) => relative(root, file))
    .filter((file) => names.length === 0 || names.some((name) => file.includes(compiledName(name))))
    .sort((a, b) => BEGUN_FIRST.test(b) - BEGUN_FIRST.test(a));
  const run = { options: mochaOptions, timeoutMs: fileTimeoutMs, env: process.env };
  if (verifying !== undefined) return verify(root, files, run, verifying);
  const results = [];
  await runStages([{ queue: files, run, results }]);
  return report(results);
}

/**
 * Runs all files with only the programs of `barePath`, as on a new machine. Then runs skipped tests again with all
 * programs, and some files on `ltsNode`.
 */
async function verify(root, files, run, { failedChecks, barePath, ltsNode }) {
  const titles = new Map();
  const withAll = { name: "with all programs", queue: [], run: { ...run, titles }, results: [] };
  const bare = {
    name: "with node, npm, git, sh and coreutils",
    queue: [...files],
    run: { ...run, env: { ...run.env, PATH: barePath } },
    results: [],
    whenRun: ({ file, failures, skippedTitles }) => {
      if (failures.length > 0 || skippedTitles.length === 0) return;
      titles.set(file, skippedTitles);
      withAll.queue.push(file);
    },
  };
  const onLts = {
    name: "on a newer LTS",
    queue: ltsNode === undefined ? [] : files.filter((file) => RUN_ON_LTS.test(file)),
    run: { ...run, execPath: ltsNode },
    results: [],
  };
  const stages = [bare, withAll, onLts];
  await runStages(stages);
  const flaky = [];
  if (process.env.CI) for (const stage of stages) flaky.push(...(await runAgain(stage, stages)));
  for (const again of withAll.results) again.passed += bare.results.find(({ file }) => file === again.file).passed;
  replace(bare.results, withAll.results);
  if (process.env.CI) refuseSkips(root, bare.results);
  const checks = { file: "verify", passed: 0, skipped: [], failures: failedChecks };
  return report([checks, ...bare.results, ...onLts.results], flaky);
}

/** Returns the path of a source file's compiled file. */
function compiledName(name) {
  return name.replace(/(^|\/)src\//, "$1dist/").replace(/\.tsx?$/, ".js");
}

function replace(results, newer) {
  for (const result of newer)
    results.splice(
      results.findIndex(({ file }) => file === result.file),
      1,
      result,
    );
}

/**
 * Runs each failed file of a stage once more, while no other file of that stage runs. Returns a line for each test that
 * failed only once.
 */
async function runAgain(stage, stages) {
  const flaky = [];
  for (const first of stage.results.filter(({ failures }) => failures.length > 0)) {
    console.log(`once more, by itself: ${first.file}`);
    const again = { ...stage, queue: [first.file], results: [] };
    await runStages([again, ...stages]);
    if (again.results.some(({ failures }) => failures.length > 0)) continue;
    replace(stage.results, again.results);
    for (const { title, error } of first.failures)
      flaky.push(`flaky: ${first.file}: ${title}: ${error.trim().split("\n", 1)[0]}`);
  }
  return flaky;
}

function refuseSkips(root, results) {
  const allowed = readFileSync(join(root, ".ci/allowed-skips"), "utf8").match(/^[^#\n].*/gm) ?? [];
  for (const result of results)
    for (const title of result.skipped)
      if (!allowed.some((beginning) => title.startsWith(beginning)))
        result.failures.push({ title, error: "must run in CI, see .ci/allowed-skips" });
}

/** Runs the files of all stages in JOBS processes, in the order of the stages. */
async function runStages(stages) {
  let done = 0;
  const runNext = async () => {
    for (let stage = nextStage(stages); stage !== undefined; stage = nextStage(stages)) {
      for await (const result of runInProcess(stage.queue, stage.run)) {
        stage.results.push(result);
        stage.whenRun?.(result);
        done++;
        const total = done + running.size - 1 + stages.reduce((left, { queue }) => left + queue.length, 0);
        const seconds = (result.durationMs / 1_000).toFixed(1);
        const where = stage.name === undefined ? "" : `${stage.name}, `;
        console.log(`[${done}/${total}] ${where}${result.file}: ${counts(result)} (${seconds} s)`);
      }
    }
  };
  const progress = setInterval(
    () => console.log(`running: ${Array.from(running, whereItIs).join(", ")}`),
    PROGRESS_EVERY_MS,
  );
  await Promise.all(Array.from({ length: JOBS }, runNext)).finally(() => clearInterval(progress));
}

function nextStage(stages) {
  return stages.find(({ queue }) => queue.length > 0);
}

function whereItIs({ file, test, testBeganMs }) {
  const forMs = performance.now() - testBeganMs;
  return forMs < LONG_TEST_MS ? file : `${file} (for ${Math.round(forMs / 1_000)} s: ${test})`;
}

function report(results, flaky = []) {
  const passed = results.reduce((total, result) => total + result.passed, 0);
  const skipped = results.flatMap((result) => result.skipped);
  const failures = results.flatMap(({ file, failures }) => failures.map((one) => ({ file, ...one })));
  console.log(["", ...failures.map(describeFailure), ...describeSkips(skipped), ...flaky].join("\n"));
  if (passed + failures.length === 0) console.log("no test ran: that fails the run");
  console.log(counts({ passed, skipped, failures }));
  return passed === 0 || failures.length > 0 ? 1 : 0;
}

function counts({ passed, failures, skipped }) {
  return `${passed} passed, ${failures.length} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`;
}

// Formats a failure for the end of the log, which is the part that most people read. Keeps both ends of a long text:
// the expectation, and the last lines of a program's output.
function describeFailure({ file, title, error }) {
  const lines = error.trimEnd().split("\n");
  const left = lines.length - MAX_FAILURE_LINES;
  if (left > 0) lines.splice(MAX_FAILURE_LINES / 2, left, `... ${left} lines more, see above ...`);
  return [`failed: ${file}: ${title}`, ...lines].join("\n  ");
}

/** Lists skipped tests. A suite's reason is in its title, which precedes the titles of its tests. */
function describeSkips(skipped) {
  const titles = skipped.map((title) => title.replace(/(\[skipped: .+?\]).*/s, "$1"));
  return [...new Set(titles)].map((title) => {
    const count = titles.filter((one) => one === title).length;
    return `skipped: ${title}${count === 1 ? "" : ` (${count} tests)`}`;
  });
}
