import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { step } from "./progress.mjs";
import { Failure, runQuietly } from "./run.mjs";

const BUILD_TIMEOUT_MS = 10 * 60_000;
const OUTPUT = /\.(?:js|js\.map|d\.ts)$/;
const SOURCE = /(?<!\.d)\.tsx?$/;
const TEST = /\.test\.ts$/;
/** The oldest Node that diskmesh runs on, as esbuild names it. */
export const TARGET = "node20.19";
const BUILD_INFO = "dist/.tsbuildinfo";

/** Returns the folders of the workspaces, relative to the root. */
export function workspaceFolders(root) {
  const inside = (parent) => readdirSync(join(root, parent)).map((name) => `${parent}/${name}`);
  return [...inside("packages"), ...inside("services"), "deploy/local", "deploy/process-cpi", "test"].filter((folder) =>
    existsSync(join(root, folder, "tsconfig.json")),
  );
}

/** Returns the absolute paths of all built files. Files of the last workspaces, such as test/, come first. */
export function builtFiles(root) {
  return workspaceFolders(root)
    .reverse()
    .map((workspace) => join(root, workspace, "dist"))
    .flatMap(filesIn)
    .filter((file) => file.endsWith(".js"));
}

/** Compiles what has changed, and checks its types. */
export async function ensureBuilt(root) {
  await step(
    "building (tsc -b)",
    async () => {
      for (const folder of workspaceFolders(root)) dropOrphans(join(root, folder));
      const compiler = join(root, "node_modules/typescript/bin/tsc");
      try {
        await runQuietly(process.execPath, [compiler, "-b"], { cwd: root, timeoutMs: BUILD_TIMEOUT_MS });
      } catch (error) {
        throw new Failure(`${error.message}\nthe build failed`);
      }
    },
    { quietMs: 1500 },
  );
}

/**
 * Compiles what has changed, except tests, without a look at its types: a tenth of the work of `ensureBuilt`, for those
 * who only use the programs.
 */
export async function ensureTranspiled(root) {
  const outdated = workspaceFolders(root)
    .filter((workspace) => workspace !== "test")
    .map((workspace) => ({ workspace, sources: outdatedSources(join(root, workspace)) }))
    .filter(({ sources }) => sources.length > 0);
  if (outdated.length === 0) return;
  await step("building (esbuild)", () => transpile(root, outdated), { quietMs: 1500 });
}

async function transpile(root, outdated) {
  // The compiler must not take these outputs for its own: it would keep them when the sources are again as it knows them.
  for (const { workspace } of outdated) rmSync(join(root, workspace, BUILD_INFO), { force: true });
  const { build } = await import("esbuild");
  const entryPoints = outdated.flatMap(({ workspace, sources }) =>
    sources.map((name) => ({
      in: join(root, workspace, "src", name),
      out: join(workspace, "dist", name.replace(SOURCE, "")),
    })),
  );
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints,
    outdir: root,
    format: "esm",
    target: TARGET,
    sourcemap: true,
    write: false,
    logLevel: "silent",
  }).catch((error) => {
    throw new Failure(`${error.message}\nthe build failed`);
  });
  // Written here, because esbuild ends with this process, and half a file would count as made.
  for (const { path, contents } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, contents);
  }
}

/** Returns the sources, relative to `src`, that are newer than what was made of them. */
function outdatedSources(workspace) {
  dropOrphans(workspace);
  const checkedMs = changedMs(join(workspace, BUILD_INFO));
  return readdirSync(join(workspace, "src"), { recursive: true })
    .map(String)
    .filter((name) => SOURCE.test(name) && !TEST.test(name))
    .filter((name) => {
      const madeMs = Math.max(checkedMs, changedMs(join(workspace, "dist", name.replace(SOURCE, ".js"))));
      return changedMs(join(workspace, "src", name)) > madeMs;
    });
}

/** Returns when the file was last written, in ms; 0 for a missing one. */
export function changedMs(file) {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

// Deletes outputs whose source was deleted or renamed, because the compiler keeps them and an old test among them would
// still run.
function dropOrphans(workspace) {
  for (const file of filesIn(join(workspace, "dist"))) {
    const name = file.slice(join(workspace, "dist/").length);
    const sources = [".ts", ".tsx"].map((ending) => join(workspace, "src", name.replace(OUTPUT, ending)));
    if (OUTPUT.test(name) && !sources.some((source) => existsSync(source))) rmSync(file);
  }
}

function filesIn(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)));
}
