import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkBreaks } from "./breaking.mjs";
import { checkCopies } from "./copies.mjs";
import { checkLines } from "./lines.mjs";
import { checkPictures } from "./pictures.mjs";
import { step } from "./progress.mjs";
import { Failure, runQuietly } from "./run.mjs";
import { runTests } from "./tests.mjs";
import { installLtsNode, installTools, makeBarePath } from "./tools.mjs";
import { checkWords } from "./words.mjs";

const CHECK_TIMEOUT_MS = 5 * 60_000;
const GENERATED = "packages/api/src/generated";

/** Runs all checks of CI except the type check, which is part of the build. Returns the exit code. */
export async function verify(root) {
  const checks = {
    "format, lint, layers, pure models and file sizes (biome)": () =>
      run(root, "@biomejs/biome/bin/biome", ["ci", "--colors=off", "--error-on-warnings", "."]),
    "protos (buf lint)": () => run(root, "@bufbuild/buf/bin/buf", ["lint", "proto"]),
    "protos break no caller (buf breaking)": () => checkBreaks(root),
    "nothing is unused (knip)": () => run(root, "knip/bin/knip.js", ["--no-progress", "--no-config-hints"]),
    "nothing stands in two places": async () => checkCopies(root),
    "no workspace outgrows its budget of lines": async () => checkLines(root),
    "comments and commits have subjects": () => checkWords(root),
    "the pictures show what there is": async () => checkPictures(root),
    "generated code is up to date": () => compareGenerated(root),
  };
  const failedChecks = [];
  for (const [name, check] of Object.entries(checks))
    await step(name, check).catch((error) => {
      failedChecks.push({ title: name, error: error instanceof Failure ? error.message : error.stack });
      process.stderr.write(`${failedChecks.at(-1).error}\n`);
    });
  if (process.env.CI) await installTools(join(root, ".cache/bin"));
  const ltsNode = process.env.CI ? await installLtsNode(join(root, ".cache")) : undefined;
  const barePath = makeBarePath(join(root, ".cache/bare-path"));
  return runTests(root, [], { verifying: { failedChecks, barePath, ltsNode } });
}

function run(root, program, args) {
  const file = join(root, "node_modules", program);
  return runQuietly(process.execPath, [file, ...args], {
    cwd: root,
    env: toolEnvironment(root),
    timeoutMs: CHECK_TIMEOUT_MS,
  });
}

// Adds node_modules/.bin to PATH, where buf finds protoc-gen-ts_proto.
function toolEnvironment(root) {
  return { ...process.env, PATH: `${join(root, "node_modules/.bin")}:${process.env.PATH}` };
}

async function compareGenerated(root) {
  const folder = mkdtempSync(join(tmpdir(), "diskmesh-generated-"));
  try {
    const where = ["--template", "proto/buf.gen.yaml", "--output", folder];
    await run(root, "@bufbuild/buf/bin/buf", ["generate", ...where]);
    const compared = ["-rq", join(root, GENERATED), join(folder, GENERATED)];
    await runQuietly("diff", compared, { timeoutMs: CHECK_TIMEOUT_MS }).catch((error) => {
      throw new Failure(`${error.message}\n${GENERATED} is not what proto/ generates: run \`npm run generate\``);
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
