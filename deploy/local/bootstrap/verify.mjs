import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkBreaks } from "./breaking.mjs";
import { step } from "./progress.mjs";
import { Failure, npmCommand, runQuietly, runVisibly } from "./run.mjs";

const CHECK_TIMEOUT_MS = 5 * 60_000;
const GENERATED = "packages/api/src/generated";

/** Everything that CI checks; types were checked by the build before. Returns the exit code. */
export async function verify(root) {
  const checks = {
    "format, lint, layers, pure models and file sizes (biome)": () =>
      run(root, "@biomejs/biome/bin/biome", ["ci", "--colors=off", "--error-on-warnings", "."]),
    "protos (buf lint)": () => run(root, "@bufbuild/buf/bin/buf", ["lint", "proto"]),
    "protos break no caller (buf breaking)": () => checkBreaks(root),
    "nothing is unused (knip)": () => run(root, "knip/bin/knip.js", ["--no-progress", "--no-config-hints"]),
    "generated code is up to date": () => compareGenerated(root),
  };
  const failed = [];
  for (const [name, check] of Object.entries(checks))
    await step(name, check).catch((error) => {
      process.stderr.write(`${error instanceof Failure ? error.message : error.stack}\n`);
      failed.push(name);
    });
  return test(root, failed);
}

// Exactly the command of README, so that what CI runs is what people run.
async function test(root, failedChecks) {
  const [npm, ...npmArgs] = npmCommand();
  let output = "";
  const exitCode = await runVisibly(npm, [...npmArgs, "test"], {
    cwd: root,
    onStdout: (text) => {
      output = (output + text).slice(-4096);
    },
  });
  if (failedChecks.length > 0) process.stdout.write(`verify failed: ${failedChecks.join("; ")}\n`);
  const counts = output.match(/^\d+ passed, \d+ failed.*$/gm)?.at(-1);
  // npm adds lines of its own below those of a test run that failed.
  if (counts && (failedChecks.length > 0 || exitCode !== 0)) process.stdout.write(`${counts}\n`);
  return exitCode || (failedChecks.length > 0 ? 1 : 0);
}

function run(root, program, args) {
  const file = join(root, "node_modules", program);
  return runQuietly(process.execPath, [file, ...args], {
    cwd: root,
    env: toolEnvironment(root),
    timeoutMs: CHECK_TIMEOUT_MS,
  });
}

// buf looks for protoc-gen-ts_proto on PATH.
function toolEnvironment(root) {
  return { ...process.env, PATH: `${join(root, "node_modules/.bin")}:${process.env.PATH}` };
}

async function compareGenerated(root) {
  const folder = mkdtempSync(join(tmpdir(), "diskmesh-generated-"));
  try {
    await run(root, "@bufbuild/buf/bin/buf", [
      "generate",
      "proto",
      "--template",
      "proto/buf.gen.yaml",
      "--output",
      folder,
    ]);
    const fresh = readTree(join(folder, GENERATED));
    const committed = readTree(join(root, GENERATED));
    const differing = [...new Set([...fresh.keys(), ...committed.keys()])].filter(
      (name) => fresh.get(name) !== committed.get(name),
    );
    if (fresh.size === 0) throw new Failure("buf generated nothing");
    if (differing.length > 0)
      throw new Failure(
        `${GENERATED} is not what proto/ generates (${differing.join(", ")}): run \`npm run generate\``,
      );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readTree(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(
    files.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(folder.length + 1), readFileSync(path, "utf8")];
    }),
  );
}
