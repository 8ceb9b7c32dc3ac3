// Entry point of `npm start`, `npm test`, `npm run verify` and `npm run bench`. Uses plain Node without dependencies,
// because it installs the dependencies: a fresh clone needs no earlier step.
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { ensureBuilt, ensureTranspiled } from "./bootstrap/build.mjs";
import { ensureBundled } from "./bootstrap/bundle.mjs";
import { runContract } from "./bootstrap/contract.mjs";
import { ensureDependencies } from "./bootstrap/dependencies.mjs";
import { writeLines } from "./bootstrap/lines.mjs";
import { requireWritable, withLock } from "./bootstrap/lock.mjs";
import { ensureNatsServer } from "./bootstrap/nats-server.mjs";
import { notePictures } from "./bootstrap/pictures.mjs";
import { release } from "./bootstrap/release.mjs";
import { Failure } from "./bootstrap/run.mjs";
import { runTests } from "./bootstrap/tests.mjs";
import { verify } from "./bootstrap/verify.mjs";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

// Timeout that covers several hundred starts of a director, or several hundred fences in a virtual machine.
const LONG_TIMEOUT_MS = 3 * 60 * 60_000;

const commands = {
  start: () => runModule("deploy/local/dist/main.js"),
  test: (args) => runTests(root, args, { isQuick: true }),
  verify: () => verify(root),
  vm: (args) => {
    const firstOption = args.findIndex((arg) => arg.startsWith("-"));
    const suites = firstOption < 0 ? args : args.slice(0, firstOption);
    process.env.DISKMESH_TRIALS = suites.join(" ") || "smoke";
    return runTests(root, ["test/src/vm/", ...args.slice(suites.length)], { fileTimeoutMs: LONG_TIMEOUT_MS });
  },
  bench: () => runModule("test/dist/bench/main.js"),
  "kill-test": runKillTest,
  contract: (args) => runContract(root, args, runKillTest),
  "crash-test": (args) => {
    process.env.DISKMESH_CRASH_PLACES = "all";
    return runTests(root, ["crash-places", ...args], { fileTimeoutMs: LONG_TIMEOUT_MS });
  },
  sim: () => runModule("test/dist/sim/main.js"),
  "password-hash": () => runModule("services/director/dist/hash-password.js"),
  lines: async () => writeLines(root),
  metrics: () => runModule("test/dist/metrics/main.js"),
  release: (args) => release(root, args),
  configuration: () => runModule("test/dist/configuration/main.js"),
  reference: () => runModule("test/dist/reference/main.js"),
  pictures: async () => {
    await runModule("test/dist/pictures/main.js");
    notePictures(root);
  },
};

function runKillTest() {
  return runModule("test/dist/kill-test/main.js");
}

// The imported module sets process.exitCode or exits, and its exit code becomes that of this process.
async function runModule(file) {
  const path = join(root, file);
  if (!existsSync(path)) throw new Failure(`${file} is missing: the build did not make it`);
  await import(pathToFileURL(path).href);
  return undefined;
}

/** Commands for users of the programs, who need no tests, and no compiler that checks types. */
const FOR_USE = ["start", "password-hash"];

async function prepare(name) {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < 20 || (major === 20 && minor < 19))
    throw new Failure(`Node ${process.versions.node} is too old: diskmesh needs 20.19 or newer`);
  requireWritable(root);
  await withLock(join(root, ".cache/bootstrap.lock"), async () => {
    const forUse = FOR_USE.includes(name);
    await ensureDependencies(root, { forUse });
    // The download waits for the network, the build for the processors.
    const natsServer = ensureNatsServer(join(root, ".cache/bin"));
    natsServer.catch(() => {});
    await (forUse ? ensureTranspiled(root) : ensureBuilt(root));
    await ensureBundled(root);
    await natsServer;
  });
}

async function main() {
  const [name, ...args] = process.argv.slice(2);
  const command = Object.hasOwn(commands, name ?? "") ? commands[name] : undefined;
  if (!command)
    throw new Failure(`usage: node deploy/local/bootstrap.mjs ${Object.keys(commands).join("|")} [arguments]`);
  await prepare(name);
  // Removes this script's own argument, so that the module sees only its own.
  process.argv.splice(2, 1);
  return command(args);
}

try {
  const exitCode = await main();
  if (exitCode !== undefined) process.exitCode = exitCode;
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  process.stderr.write(`diskmesh: ${error.message}\n`);
  process.exitCode = 1;
}
