import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { builtFiles } from "./build.mjs";
import { runTestFile, startTestProcess } from "./test-process.mjs";
import { touchedTests } from "./touched-tests.mjs";

/** A test that cannot run here says why in its title; see skipBecause in packages/testkit. */
const REASON = /\[skipped: .+\]/;
/** Beginnings of the titles that may be skipped even where CI runs, which has all that tests need but these. */
const SKIPS_ALLOWED_IN_CI = [
  // There is no package of it: its requests are replayed by another suite.
  "the bosh CLI itself",
  // Not every distribution has a package of a browser.
  "the page in a browser",
  // It comes from PyPI, which not every machine reaches.
  "vendor passthru, drivers for any host the stock client",
  // They mount a file system, which a container may not. The limit on the size of files stands for a full disk then.
  "A full disk and LMDB of",
  "a director whose disk is full",
  "a disk-registry whose disk is full",
  "an agent's cache on a full disk",
  "the run folder without room for a run",
  // Not every distribution has packages of these, and they find what other tests of the same files do not.
  "the compose file is one to docker compose",
  "the manifests for Kubernetes base is built by kubectl",
  "the manifests for Kubernetes block-devices is built by kubectl",
  // A container may make no network namespaces.
  "docs/operations.md in network namespaces",
  // Not every distribution has a package of libfaketime.
  "docs/operations.md what happens when a part is away the right time",
  // A shallow clone lacks the last release.
  "this version and the last release side by side",
  // Debian's nats-server knows no auth callout, and not everywhere there is Go to make another.
  "agents with certificates of their own, NATS being told by auth callout",
  "the life of a VM's agent: a stock bosh-agent",
];
const FILE_TIMEOUT_MS = 20 * 60_000;
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
export async function runTests(
  root,
  args,
  { isQuick = false, failedChecks = [], fileTimeoutMs: timeoutMs = FILE_TIMEOUT_MS } = {},
) {
  const { loadOptions } = (await import("mocha/lib/cli/options.cjs")).default;
  const mochaArgs = args.filter((arg) => arg !== "--changed");
  const names = loadOptions(mochaArgs)._;
  // Whoever asks for some of them wants all of these, and CI wants all.
  process.env.DISKMESH_QUICK_RUN = String(isQuick && args.length === 0 && !process.env.CI);
  // What several files need is made there once.
  process.env.DISKMESH_RUN_FOLDER = mkdtempSync(join(tmpdir(), "diskmesh-run-"));
  process.once("exit", () => rmSync(process.env.DISKMESH_RUN_FOLDER, { recursive: true, force: true }));
  const all = builtFiles(root).filter((file) => file.endsWith(".test.js"));
  const isFirst = (file) => BEGUN_FIRST.test(relative(root, file));
  const files = (args.includes("--changed") ? touchedTests(root, all) : all)
    .filter((file) => names.length === 0 || names.some((name) => relative(root, file).includes(name)))
    .sort((a, b) => isFirst(b) - isFirst(a));
  return report(await runFiles(root, files, mochaArgs, timeoutMs), failedChecks);
}

async function runFiles(root, files, mochaArgs, timeoutMs) {
  const queue = files.values();
  const results = [];
  const running = new Set();
  const runNext = async () => {
    let child;
    for (const file of queue) {
      if (!child?.connected) child = startTestProcess(root, mochaArgs);
      const name = relative(root, file);
      running.add(name);
      const onOutput = (text) => process.stdout.write(text.replace(/^(?=.)/gm, `${name}: `));
      const result = await runTestFile(child, file, { timeoutMs, onOutput });
      running.delete(name);
      results.push({ name, ...result });
      const { passed, failures, cpuSeconds } = result;
      const counts = `${passed} passed${failures.length > 0 ? `, ${failures.length} failed` : ""}`;
      console.log(`[${results.length}/${files.length}] ${name}: ${counts}, ${cpuSeconds.toFixed(1)} s of a processor`);
      // What a file left that failed is no matter of the next.
      if (child.connected && failures.length > 0) child.disconnect();
    }
    if (child?.connected) child.disconnect();
  };
  const progress = setInterval(() => console.log(`running: ${[...running].join(", ")}`), PROGRESS_EVERY_MS);
  await Promise.all(Array.from({ length: JOBS }, runNext)).finally(() => clearInterval(progress));
  return results;
}

// The end of a long log is all that many people see of it. What a test expected, and of what a program printed the last
// lines, are at the ends of the text.
function describeFailure(name, { title, error }) {
  const lines = error.trimEnd().split("\n");
  const left = lines.length - MAX_FAILURE_LINES;
  if (left > 0) lines.splice(MAX_FAILURE_LINES / 2, left, `... ${left} lines more, see above ...`);
  return [`failed: ${name}: ${title}`, ...lines.map((line) => `  ${line}`)].join("\n");
}

/** A suite's reason stands in its title, before those of its tests. */
function bySuite(skipped) {
  const counts = new Map();
  for (const title of skipped.map((one) => one.replace(/(\[skipped: .+?\]).*/s, "$1")))
    counts.set(title, (counts.get(title) ?? 0) + 1);
  return [...counts];
}

function report(results, failedChecks) {
  const passed = results.reduce((total, result) => total + result.passed, 0);
  const failed = results.flatMap(({ failures }) => failures).length;
  const skipped = results.flatMap((result) => result.skipped);
  const isForbidden = (title) => process.env.CI && !SKIPS_ALLOWED_IN_CI.some((allowed) => title.startsWith(allowed));
  const bad = { "do not say why": (title) => !REASON.test(title), "must run in CI": isForbidden };
  const problems = Object.entries(bad)
    .map(([what, isBad]) => [skipped.filter(isBad).length, what])
    .filter(([count]) => count > 0)
    .map(([count, what]) => `${count} of the skipped tests ${what}: that fails the run`);
  if (passed + failed === 0) problems.push("no test ran: that fails the run");
  if (failedChecks.length > 0) problems.push(`verify failed: ${failedChecks.join("; ")}`);
  const lines = [
    "",
    ...results.flatMap(({ name, failures }) => failures.map((one) => describeFailure(name, one))),
    ...bySuite(skipped).map(([title, count]) => `skipped: ${title}${count === 1 ? "" : ` (${count} tests)`}`),
    ...problems,
    `${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`,
  ];
  console.log(lines.join("\n"));
  return failed + problems.length > 0 ? 1 : 0;
}
