import { availableParallelism } from "node:os";
import { relative } from "node:path";
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
  "vendor passthru the stock client",
  // They mount a file system, which a container may not. The limit on the size of files stands for a full disk then.
  "A full disk and LMDB of a few MiB",
  "a director whose disk is full",
  "a disk-registry whose disk is full",
  "an agent's cache on a full disk",
  "the run folder without room for a run",
  // Not every distribution has packages of these, and they find what other tests of the same files do not.
  "the compose file is one to docker compose",
  "the manifests for Kubernetes base is built by kubectl",
  "the manifests for Kubernetes block-devices is built by kubectl",
  // Not every distribution has a package of libfaketime.
  "docs/operations.md what happens when a part is away the right time",
  // A shallow clone lacks the last release.
  "this version and the last release side by side",
  // Debian's nats-server knows no auth callout.
  "agents with certificates of their own, NATS being told by auth callout",
  "the life of a VM's agent: a stock bosh-agent",
];
/** Parts of the paths of those that take longest: begun last, they would keep everybody waiting alone. */
const FIRST =
  /kill-test|crash-places|local\/dist\/start|slow-yaml|registry\/dist\/takeover|dist\/takeover\/takeover|recreation|removals|soak|multi-cpi|reference-cpi|director\/dist\/restore|fuzz|bootstrap|agent\/dist\/agent|faults|vendor-passthru|fleet\.test|mongo-storage|devices\.test/;
const FILE_TIMEOUT_MS = 20 * 60_000;
const PROGRESS_EVERY_MS = 15_000;
/** Of each failure, as it is told again at the end. */
const MAX_FAILURE_LINES = 60;
// Tests of processes wait for each other half of the time.
const JOBS = Math.max(2, Math.min(8, availableParallelism() * 2));

/**
 * Runs compiled tests by mocha, in a few processes that take file after file; returns the exit code. `--changed` takes
 * the files that the working tree touches, names take those whose path has one of them; the rest of `args` is mocha's. With `isLive` what tests
 * print is passed on as it comes.
 */
export async function runTests(
  root,
  args,
  { isQuick = false, failedChecks = [], fileTimeoutMs = FILE_TIMEOUT_MS, isLive = false } = {},
) {
  const { loadOptions } = (await import("mocha/lib/cli/options.cjs")).default;
  const mochaArgs = args.filter((arg) => arg !== "--changed");
  const names = loadOptions(mochaArgs)._;
  // Whoever asks for some of them wants all of these, and CI wants all.
  process.env.DISKMESH_QUICK_RUN = String(isQuick && args.length === 0 && !process.env.CI);
  const all = builtFiles(root).filter((file) => file.endsWith(".test.js"));
  const files = (args.includes("--changed") ? touchedTests(root, all) : all)
    .filter((file) => names.length === 0 || names.some((name) => relative(root, file).includes(name)))
    .sort((a, b) => FIRST.test(b) - FIRST.test(a));
  return report(await runFiles(root, files, mochaArgs, { timeoutMs: fileTimeoutMs, isLive }), failedChecks);
}

async function runFiles(root, files, mochaArgs, { timeoutMs, isLive }) {
  const queue = [...files];
  const results = [];
  const running = new Set();
  const runNext = async () => {
    let child;
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
      if (!child?.connected) child = startTestProcess(root, mochaArgs);
      const name = relative(root, file);
      running.add(name);
      const onFailure = (failure) => console.log(describeFailure(name, failure, Number.POSITIVE_INFINITY));
      const onOutput = isLive ? (text) => process.stdout.write(text) : () => {};
      const result = { name, ...(await runTestFile(child, file, { timeoutMs, onFailure, onOutput })) };
      running.delete(name);
      results.push(result);
      printResult(result, `${results.length}/${files.length}`, isLive ? "" : result.output);
      // What a file left that failed is no matter of the next.
      if (child.connected && result.failures.length > 0) child.disconnect();
    }
    if (child?.connected) child.disconnect();
  };
  const progress = setInterval(() => console.log(`running: ${[...running].join(", ")}`), PROGRESS_EVERY_MS);
  await Promise.all(Array.from({ length: JOBS }, runNext)).finally(() => clearInterval(progress));
  return results;
}

function printResult({ name, passed, failures, skipped, cpuSeconds }, progress, output) {
  if (passed + failures.length + skipped.length === 0) return;
  const counts = `${passed} passed${failures.length > 0 ? `, ${failures.length} failed` : ""}`;
  console.log(`[${progress}] ${name}: ${counts}, ${cpuSeconds.toFixed(1)} s of a processor\n${output}`.trimEnd());
}

// The end of a long log is all that many people see of it. What a test expected, and of what a program printed the last
// lines, are at the ends of the text.
function describeFailure(name, { title, error }, maxLines) {
  const lines = error.trimEnd().split("\n");
  const left = lines.length - maxLines;
  if (left > 0) lines.splice(maxLines / 2, left, `... ${left} lines more, see above ...`);
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
  const unexplained = skipped.filter((title) => !REASON.test(title)).length;
  const isForbidden = (title) => process.env.CI && !SKIPS_ALLOWED_IN_CI.some((allowed) => title.startsWith(allowed));
  const forbidden = skipped.filter(isForbidden).length;
  const problems = [
    ...(unexplained > 0 ? [`${unexplained} of the skipped tests do not say why: that fails the run`] : []),
    ...(forbidden > 0 ? [`${forbidden} of the skipped tests must run in CI: that fails the run`] : []),
    ...(passed + failed === 0 ? ["no test ran: that fails the run"] : []),
    ...(failedChecks.length > 0 ? [`verify failed: ${failedChecks.join("; ")}`] : []),
  ];
  const lines = [
    "",
    ...results.flatMap(({ name, failures }) => failures.map((one) => describeFailure(name, one, MAX_FAILURE_LINES))),
    ...bySuite(skipped).map(([title, count]) => `skipped: ${title}${count === 1 ? "" : ` (${count} tests)`}`),
    ...problems,
    `${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`,
  ];
  console.log(lines.join("\n"));
  return failed + problems.length > 0 ? 1 : 0;
}
