import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { workspaceFolders } from "./build.mjs";
import { ProgramFailure, runQuietly } from "./run.mjs";

/** A test that cannot run here says why in its title; see skipBecause in packages/testkit. */
const REASON = /\[skipped: .+\]/;
/** Beginnings of the titles that may be skipped even where CI runs, which has all that tests need but these. */
const SKIPS_ALLOWED_IN_CI = [
  // They mount a file system, which a container may not. The limit on the size of files stands for a full disk then.
  "A full disk and LMDB of a few MiB",
  "a director whose disk is full",
  "a disk-registry whose disk is full",
  "an agent's cache on a full disk",
  "the run folder without room for a run",
];
const FILE_TIMEOUT_MS = 10 * 60_000;
/** Of each failure, as it is told again at the end. */
const MAX_FAILURE_LINES = 60;
// Tests of processes wait for each other a third of the time.
const JOBS = Math.max(2, Math.min(6, Math.ceil(availableParallelism() * 1.5)));

/** Runs every compiled test by mocha, with `args` passed on to it; returns the exit code. */
export async function runTests(root, args) {
  const folder = mkdtempSync(join(tmpdir(), "diskmesh-tests-"));
  try {
    const files = testFiles(root);
    const results = [];
    // A process for each file: what one leaves in memory, or how it ends, is no matter of the next.
    const runNext = async () => {
      for (let index = results.length; index < files.length; index = results.length) {
        results.push(undefined);
        results[index] = await runFile(root, files[index], join(folder, `${index}.json`), args);
        process.stdout.write(results[index].output);
      }
    };
    await Promise.all(Array.from({ length: JOBS }, runNext));
    return report(results);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

// The whole mesh first: its files take the longest.
function testFiles(root) {
  return workspaceFolders(root)
    .reverse()
    .map((workspace) => join(root, workspace, "dist"))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name))))
    .filter((file) => file.endsWith(".test.js"));
}

async function runFile(root, file, resultFile, args) {
  const command = [
    // Mocha alone swallows a rejection that nobody handles.
    "--unhandled-rejections=strict",
    join(root, "node_modules/mocha/bin/mocha.js"),
    ...["--reporter", fileURLToPath(new URL("./reporter.cjs", import.meta.url))],
    ...["--reporter-option", `resultFile=${resultFile}`],
    ...(process.stdout.isTTY ? ["--color"] : []),
    file,
    ...args,
  ];
  let output;
  let failure;
  try {
    output = await runQuietly(process.execPath, command, { cwd: root, timeoutMs: FILE_TIMEOUT_MS });
  } catch (error) {
    if (!(error instanceof ProgramFailure)) throw error;
    output = error.output;
    failure = error.reason;
  }
  const name = relative(root, file);
  const counts = readResult(resultFile);
  if (!counts)
    return {
      name,
      passed: 0,
      failed: 1,
      skipped: [],
      failures: [{ title: `${failure ?? "ended"} before all its tests had run`, error: output }],
      output,
    };
  // Failed tests speak for themselves; anything else that ends mocha badly does not.
  if (failure && counts.failed === 0)
    return { ...counts, name, failed: 1, failures: [{ title: failure, error: output }], output };
  const ranNone = counts.passed + counts.failed + counts.skipped.length === 0;
  return { ...counts, name, output: ranNone ? "" : `\n${name}${output.trimEnd()}\n` };
}

function readResult(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

// The end of a long log is all that many people see of it. What a test expected, and of what a program printed the last
// lines, are at the ends of the text.
function describeFailure(name, { title, error }) {
  const lines = error.trimEnd().split("\n");
  const left = lines.length - MAX_FAILURE_LINES;
  const half = MAX_FAILURE_LINES / 2;
  const shown =
    left > 0 ? [...lines.slice(0, half), `... ${left} lines more, see above ...`, ...lines.slice(-half)] : lines;
  return [`failed: ${name}: ${title}`, ...shown.map((line) => `  ${line}`)].join("\n");
}

function report(results) {
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  const [passed, failed] = [sum("passed"), sum("failed")];
  const skipped = results.flatMap((result) => result.skipped);
  const unexplained = skipped.filter((title) => !REASON.test(title)).length;
  const forbidden = process.env.CI
    ? skipped.filter((title) => !SKIPS_ALLOWED_IN_CI.some((allowed) => title.startsWith(allowed))).length
    : 0;
  const lines = [
    "",
    ...results.flatMap(({ name, failures }) => failures.map((failure) => describeFailure(name, failure))),
    ...skipped.map((title) => `skipped: ${title}`),
    ...(unexplained > 0 ? [`${unexplained} of the skipped tests do not say why: that fails the run`] : []),
    ...(forbidden > 0 ? [`${forbidden} of the skipped tests must run in CI: that fails the run`] : []),
    ...(passed + failed === 0 ? ["no test ran: that fails the run"] : []),
    [`${passed} passed`, `${failed} failed`, ...(skipped.length > 0 ? [`${skipped.length} skipped`] : [])].join(", "),
  ];
  process.stdout.write(`${lines.join("\n")}\n`);
  return failed > 0 || unexplained > 0 || forbidden > 0 || passed === 0 ? 1 : 0;
}
