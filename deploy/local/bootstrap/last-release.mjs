import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { withLock } from "./lock.mjs";
import { step } from "./progress.mjs";
import { Failure, runQuietly } from "./run.mjs";

const NAMED_IN = "deploy/release/last-release.json";
const GIT_TIMEOUT_MS = 60_000;
const BUILD_TIMEOUT_MS = 15 * 60_000;
const OWN = "@diskmesh";

/** Returns the commit of the last release; undefined when no release exists. */
export function lastRelease(root) {
  const file = join(root, NAMED_IN);
  if (!existsSync(file)) return undefined;
  const { version, commit } = JSON.parse(readFileSync(file, "utf8"));
  if (!/^[0-9a-f]{40}$/.test(commit) || !version) throw new Failure(`${NAMED_IN} names no version and no commit`);
  return { version, commit };
}

/**
 * Builds the last release from git history once, with that release's own tools. Resolves to its folder; its programs
 * are in `bundle`. Rejects with a Failure when the history lacks the release.
 * @public the test of versions starts it
 */
export async function ensureLastRelease(root) {
  const { commit, version } = lastRelease(root) ?? {};
  if (commit === undefined) throw new Failure(`${NAMED_IN} is missing`);
  const folder = join(root, ".cache/last-release", commit);
  await withLock(`${folder}.lock`, async () => {
    if (existsSync(folder)) return;
    const making = `${folder}.making`;
    rmSync(making, { recursive: true, force: true });
    mkdirSync(making, { recursive: true });
    await unpack(root, commit, making);
    linkDependencies(root, making);
    await step(`building release ${version}`, () => build(making), { quietMs: 1500 });
    renameSync(making, folder);
  });
  return folder;
}

async function unpack(root, commit, folder) {
  const archive = `${folder}.tar`;
  try {
    await runQuietly("git", ["archive", `--output=${archive}`, commit], { cwd: root, timeoutMs: GIT_TIMEOUT_MS });
    await runQuietly("tar", ["-xf", archive, "-C", folder], { timeoutMs: GIT_TIMEOUT_MS });
  } catch (error) {
    throw new Failure(`the last release, commit ${commit}, is not in this history: ${error.message}`);
  } finally {
    rmSync(archive, { force: true });
  }
}

/**
 * Links this version's packages into the release's node_modules, except its workspaces. The release's own setup
 * replaces the packages if it needs others.
 */
function linkDependencies(root, folder) {
  const [from, to] = [join(root, "node_modules"), join(folder, "node_modules")];
  mkdirSync(join(to, OWN), { recursive: true });
  for (const name of readdirSync(from).filter((one) => one !== OWN && one !== ".package-lock.json"))
    symlinkSync(join(from, name), join(to, name));
  // Copies the file instead of linking it, because `npm ci` writes it.
  cpSync(join(from, ".package-lock.json"), join(to, ".package-lock.json"));
  for (const parent of ["packages", "services", "deploy"])
    for (const name of readdirSync(join(folder, parent))) {
      const manifest = join(folder, parent, name, "package.json");
      if (!existsSync(manifest)) continue;
      const link = join(to, JSON.parse(readFileSync(manifest, "utf8")).name);
      if (dirname(link).endsWith(OWN)) symlinkSync(join("../..", parent, name), link);
    }
}

async function build(folder) {
  const part = (name) => JSON.stringify(pathToFileURL(join(folder, "deploy/local/bootstrap", name)).href);
  const script = `
    const root = ${JSON.stringify(folder)};
    await (await import(${part("dependencies.mjs")})).ensureDependencies(root);
    await (await import(${part("build.mjs")})).ensureBuilt(root);
    await (await import(${part("bundle.mjs")})).ensureBundled(root);`;
  await runQuietly(process.execPath, ["--input-type=module", "-e", script], {
    cwd: folder,
    timeoutMs: BUILD_TIMEOUT_MS,
  });
}
