import { parseArgs } from "node:util";
import { runKillTest } from "./run.js";
import { openStore, STORE_NAMES, type StoreName } from "./stores.js";

const USAGE = `npm run kill-test -- [--seconds N] [--seed S] [--hosts N] [--devices N] [--store ${STORE_NAMES.join("|")}]`;

function whole(name: string, text: string | undefined, fallback: number): number {
  const value = text === undefined ? fallback : Number(text);
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new Error(`--${name} is ${text}: give a whole number from 1`);
}

/** Both, one after the other, unless one is asked for. */
function storeNames(text: string | undefined): readonly StoreName[] {
  if (text === undefined) return STORE_NAMES;
  const named = STORE_NAMES.filter((name) => name === text);
  if (named.length === 0) throw new Error(`--store is ${text}: give ${STORE_NAMES.join(" or ")}`);
  return named;
}

const report = (line: string) => void process.stdout.write(`kill-test: ${line}\n`);

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string" },
      seed: { type: "string" },
      hosts: { type: "string" },
      devices: { type: "string" },
      store: { type: "string" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return void process.stdout.write(`${USAGE}\n`);
  const options = {
    seconds: whole("seconds", values.seconds, 120),
    seed: whole("seed", values.seed, Math.floor(Math.random() * 1_000_000) + 1),
    hosts: whole("hosts", values.hosts, 3),
    devicesPerHost: whole("devices", values.devices, 6),
  };
  for (const name of storeNames(values.store)) if (!(await runOn(name, options))) process.exitCode = 1;
}

/** Whether all went well. */
async function runOn(
  name: StoreName,
  options: { seconds: number; seed: number; hosts: number; devicesPerHost: number },
) {
  const store = await openStore(name);
  if (typeof store === "string")
    throw new Error(`${name} was not tested: ${store}; --store lmdb tests the other alone`);
  if (name === "mongodb" && store.database === undefined)
    report(`${store.title} is not this test's own: it is not killed`);
  try {
    const result = await runKillTest({ ...options, store, report });
    report(
      `${result.calls.retried} calls repeated; ${result.descriptorChecks} looks at descriptors of what was let go of; ` +
        `${result.diskReads} of disks`,
    );
    for (const violation of result.violations) report(`VIOLATION: ${violation}`);
    const failed = result.violations.length > 0;
    report(
      failed
        ? `failed; --store ${name} --seed ${options.seed} makes the same choices again`
        : `nothing acknowledged was lost; all as it was told ${Math.round(result.convergedMs)} ms after the last kill`,
    );
    return !failed;
  } finally {
    await store.remove();
  }
}

try {
  await main();
} catch (error) {
  process.stderr.write(`kill-test: ${error instanceof Error ? error.message : error}\n${USAGE}\n`);
  process.exitCode = 2;
}
