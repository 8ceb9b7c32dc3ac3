import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { step } from "./progress.mjs";
import { Failure, npmCommand, runQuietly } from "./run.mjs";

const INSTALL_TIMEOUT_MS = 10 * 60_000;

/**
 * Installs what package-lock.json says and node_modules lacks. `forUse` leaves out the development dependencies, which
 * are most of the bytes and which only tests and checks need; it keeps those that are installed.
 */
export async function ensureDependencies(root, { forUse = false } = {}) {
  if (await areInstalled(root, { forUse })) return;
  const [npm, ...npmArgs] = npmCommand();
  const args = await argumentsOf(root, forUse);
  await step(`installing dependencies (npm ${args[0]})`, async () => {
    try {
      await runQuietly(npm, [...npmArgs, ...args, "--no-audit", "--no-fund"], {
        cwd: root,
        timeoutMs: INSTALL_TIMEOUT_MS,
      });
    } catch (error) {
      throw new Failure(`${error.message}\ncould not install the dependencies: mend what npm says and try again`);
    }
  });
  if (!(await areInstalled(root, { forUse })))
    throw new Failure(
      `npm ${args[0]} went well, yet node_modules is not what package-lock.json says: delete node_modules and try again`,
    );
}

async function argumentsOf(root, forUse) {
  if (forUse) return ["ci", "--omit=dev"];
  // Adds the development dependencies to the others. `npm ci` would first delete node_modules, from which a mesh of
  // `npm start` may be running.
  if (await areInstalled(root, { forUse: true })) return ["install", "--no-save", "--include=dev"];
  return ["ci", "--include=dev"];
}

// npm writes node_modules/.package-lock.json at the end of an install, so the file proves that the install is complete.
async function areInstalled(root, { forUse }) {
  const installed = await readLock(join(root, "node_modules/.package-lock.json"));
  if (!installed) return false;
  const wanted = await readLock(join(root, "package-lock.json"));
  if (!wanted)
    throw new Failure("package-lock.json is missing or no JSON: restore it with `git checkout package-lock.json`");
  return Object.entries(wanted.packages).every(
    ([path, entry]) =>
      path === "" ||
      entry.optional ||
      entry.link ||
      (forUse && entry.dev) ||
      installed.packages?.[path]?.version === entry.version,
  );
}

async function readLock(file) {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch {
    return undefined;
  }
}
