import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { builtFiles } from "./build.mjs";
import { runInProcess, running } from "./test-process.mjs";
import { touchedTests } from "./touched-tests.mjs";

const PROGRESS_EVERY_MS = 15_000;
/** Of each failure, as it is told again at the end. */
const MAX_FAILURE_LINES = 60;
// Tests of processes wait for each other most of the time.
const JOBS = Math.max(2, Math.min(8, availableParallelism() * 3));

/** What would end last otherwise, since it mostly waits. */
const BEGUN_FIRST = /^test\/dist\/operations|\/mongo-storage\.test\.js$/;

/**
 * Runs compiled tests by mocha, in a few processes that take file after file; returns the exit code. `--changed` takes
 * the files that the working tree touches, names take those whose path has one of them; the rest of `args` is mocha's.
 */
export async function runTests(root, args, { isQuick, failedChecks = [], fileTimeoutMs = 20 * 60_000 } = {}) {
  // Where mocha's settings are.
  process.chdir(root);
  const { loadOptions } = (await import("mocha/lib/cli/options.cjs")).default;
  const { _: names, ...given } = loadOptions(args.filter((arg) => arg !== "--changed"));
  const inCamelCase = ([name, value]) => [name.replace(/-(.)/g, (_, letter) => letter.toUpperCase()), value];
  const options = Object.fromEntries(Object.entries(given).map(inCamelCase));
  // Whoever asks for some of them wants all of these, and CI wants all.
  process.env.DISKMESH_QUICK_RUN = String(Boolean(isQuick) && args.length === 0 && !process.env.CI);
  // What several files need is made there once.
  process.env.DISKMESH_RUN_FOLDER = mkdtempSync(join(tmpdir(), "diskmesh-run-"));
  process.once("exit", () => rmSync(process.env.DISKMESH_RUN_FOLDER, { recursive: true, force: true }));
  const all = builtFiles(root).filter((file) => file.endsWith(".test.js"));
  const files = (args.includes("--changed") ? touchedTests(root, all) : all)
    .map((file) => relative(root, file))
    .filter((file) => names.length === 0 || names.some((name) => file.includes(name)))
    .sort((a, b) => BEGUN_FIRST.test(b) - BEGUN_FIRST.test(a));
  const results = await runFiles(files, options, fileTimeoutMs);
  return report([{ file: "verify", passed: 0, skipped: [], failures: failedChecks }, ...results]);
}

async function runFiles(files, options, timeoutMs) {
  const queue = [...files];
  const results = [];
  const runNext = async () => {
    while (queue.length > 0)
      for await (const result of runInProcess(queue, options, timeoutMs)) {
        results.push(result);
        console.log(`[${results.length}/${files.length}] ${result.file}: ${counts(result)}`);
      }
  };
  const progress = setInterval(
    () => console.log(`running: ${Array.from(running, ({ file }) => file).join(", ")}`),
    PROGRESS_EVERY_MS,
  );
  await Promise.all(Array.from({ length: JOBS }, runNext)).finally(() => clearInterval(progress));
  return results;
}

function report(results) {
  const passed = results.reduce((total, result) => total + result.passed, 0);
  const skipped = results.flatMap((result) => result.skipped);
  const failures = results.flatMap(({ file, failures }) => failures.map((one) => ({ file, ...one })));
  console.log(["", ...failures.map(describeFailure), ...describeSkips(skipped)].join("\n"));
  if (passed + failures.length === 0) console.log("no test ran: that fails the run");
  console.log(counts({ passed, skipped, failures }));
  return passed === 0 || failures.length > 0 ? 1 : 0;
}

function counts({ passed, failures, skipped }) {
  return `${passed} passed, ${failures.length} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`;
}

// The end of a long log is all that many people see of it. What a test expected, and of what a program printed the last
// lines, are at the ends of the text.
function describeFailure({ file, title, error }) {
  const lines = error.trimEnd().split("\n");
  const left = lines.length - MAX_FAILURE_LINES;
  if (left > 0) lines.splice(MAX_FAILURE_LINES / 2, left, `... ${left} lines more, see above ...`);
  return [`failed: ${file}: ${title}`, ...lines].join("\n  ");
}

/** A suite's reason stands in its title, before those of its tests. */
function describeSkips(skipped) {
  const titles = skipped.map((title) => title.replace(/(\[skipped: .+?\]).*/s, "$1"));
  return [...new Set(titles)].map((title) => {
    const count = titles.filter((one) => one === title).length;
    return `skipped: ${title}${count === 1 ? "" : ` (${count} tests)`}`;
  });
}
