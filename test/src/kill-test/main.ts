import { parseArgs } from "node:util";
import { runKillTest } from "./run.js";

const USAGE = "npm run kill-test -- [--seconds N] [--seed S] [--hosts N] [--devices N] [--storage FOLDER-OR-URL]";

function whole(name: string, text: string | undefined, fallback: number): number {
  const value = text === undefined ? fallback : Number(text);
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new Error(`--${name} is ${text}: give a whole number from 1`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string" },
      seed: { type: "string" },
      hosts: { type: "string" },
      devices: { type: "string" },
      storage: { type: "string" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return void process.stdout.write(`${USAGE}\n`);
  const report = (line: string) => void process.stdout.write(`kill-test: ${line}\n`);
  const seed = whole("seed", values.seed, Math.floor(Math.random() * 1_000_000) + 1);
  const result = await runKillTest({
    seconds: whole("seconds", values.seconds, 120),
    seed,
    hosts: whole("hosts", values.hosts, 3),
    devicesPerHost: whole("devices", values.devices, 6),
    storage: values.storage,
    report,
  });
  report(
    `${result.calls.retried} calls repeated; ${result.descriptorChecks} looks at descriptors of what was let go of`,
  );
  for (const violation of result.violations) report(`VIOLATION: ${violation}`);
  if (result.violations.length > 0) {
    report(`failed; --seed ${seed} makes the same choices again`);
    process.exitCode = 1;
    return;
  }
  report(`nothing acknowledged was lost; all as it was told ${Math.round(result.convergedMs)} ms after the last kill`);
}

try {
  await main();
} catch (error) {
  process.stderr.write(`kill-test: ${error instanceof Error ? error.message : error}\n${USAGE}\n`);
  process.exitCode = 2;
}
