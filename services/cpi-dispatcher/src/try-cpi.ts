import { mkdtempSync, realpathSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { CancelledError, messageOf, Redactor, visible } from "@diskmesh/domain";
import { loadConfig, Slots } from "@diskmesh/service";
import type * as z from "zod";
import { AnswerBudget } from "./executables/answer.js";
import { ExecutableCpi } from "./executables/executable-cpi.js";
import { EXECUTABLE_LIMITS } from "./executables/limits.js";
import { RunFolder } from "./executables/run-folder.js";
import { objectsFile, propertiesFile } from "./trial/objects.js";
import { type Finding, tryCpi } from "./trial/trial.js";

// `diskmesh cpi try` runs this program: try-cpi EXECUTABLE [--properties FILE] [--objects FILE].

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => stop.abort(new CancelledError("the trial was stopped")));

try {
  process.exitCode = await tried(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n`);
  process.exitCode = 1;
}

async function tried(argv: string[]): Promise<number> {
  const options = { properties: { type: "string" }, objects: { type: "string" } } as const;
  const { values, positionals } = parseArgs({ args: argv, options, allowPositionals: true });
  const execPath = realpathSync(positionals[0] ?? "");
  const properties = loaded(propertiesFile, values.properties);
  const objects = loaded(objectsFile, values.objects);
  const folder = mkdtempSync(join(tmpdir(), "diskmesh-cpi-try-"));
  const redactor = new Redactor([properties]);
  const runFolder = await RunFolder.open(folder);
  const cpi = new ExecutableCpi({
    name: "try",
    execPath,
    jobsFolder: dirname(execPath),
    properties,
    limits: { ...EXECUTABLE_LIMITS, callTimeoutMs: objects.call_timeout_ms, maxConcurrentCalls: 1 },
    runFolder,
    answerBudget: new AnswerBudget(EXECUTABLE_LIMITS.maxAnswersBytes),
    slots: new Slots(1),
    assumeV1WhenInfoFails: false,
  });
  try {
    const findings = await tryCpi({
      ...{ cpi, objects, signal: stop.signal },
      onLogLine: (line) => process.stderr.write(`${line}\n`),
      onFinding: (finding) => process.stdout.write(`${redactor.text(lineOf(finding))}\n`),
    });
    const countOf = (wanted: Finding["outcome"]) => findings.filter(({ outcome }) => outcome === wanted).length;
    const [failed, differing] = [countOf("FAILED"), countOf("differs")];
    process.stdout.write(
      `${findings.length} steps, ${failed} failed${differing > 0 ? `, ${differing} differ` : ""}${stop.signal.aborted ? "; the trial was stopped" : ""}\n`,
    );
    return failed > 0 || stop.signal.aborted ? 1 : 0;
  } finally {
    await runFolder.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Loads a YAML file; an empty one when none is given. Throws ConfigError, which never quotes the file. */
function loaded<Schema extends z.ZodType>(schema: Schema, file = ""): z.output<Schema> {
  if (file === "") return schema.parse({});
  const { config, warnings } = loadConfig(schema, resolve(file));
  // A warning about the whole file begins with an empty place.
  for (const warning of warnings) process.stderr.write(`warning: ${warning.replace(/^: /, "")}\n`);
  return config;
}

function lineOf({ outcome, title, detail, durationMs }: Finding): string {
  const seconds = `${(durationMs / 1_000).toFixed(1)} s`;
  // CPIs put whole outputs of programs into their errors.
  const line = detail.replaceAll(/\s*\n\s*/g, " ");
  return visible(`${outcome.padEnd(8)}  ${title}${line === "" ? "" : `: ${line}`} (${seconds})`);
}
