import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { step } from "./progress.mjs";
import { Failure, npmCommand, runQuietly } from "./run.mjs";

const INSTALL_TIMEOUT_MS = 10 * 60_000;

/** Runs `npm ci` when node_modules does not match package-lock.json. */
export async function ensureDependencies(root) {
  if (await areInstalled(root)) return;
  const [npm, ...npmArgs] = npmCommand();
  await step("installing dependencies (npm ci)", async () => {
    try {
      await runQuietly(npm, [...npmArgs, "ci", "--no-audit", "--no-fund"], {
        cwd: root,
        timeoutMs: INSTALL_TIMEOUT_MS,
      });
    } catch (error) {
      throw new Failure(`${error.message}\ncould not install the dependencies: mend what npm says and try again`);
    }
  });
  if (!(await areInstalled(root)))
    throw new Failure(
      "npm ci went well, yet node_modules is not what package-lock.json says: delete node_modules and try again",
    );
}

// npm writes node_modules/.package-lock.json at the end of an install, so the file proves that the install is complete.
async function areInstalled(root) {
  const installed = await readLock(join(root, "node_modules/.package-lock.json"));
  if (!installed) return false;
  const wanted = await readLock(join(root, "package-lock.json"));
  if (!wanted)
    throw new Failure("package-lock.json is missing or no JSON: restore it with `git checkout package-lock.json`");
  return Object.entries(wanted.packages).every(
    ([path, entry]) =>
      path === "" || entry.optional || entry.link || installed.packages?.[path]?.version === entry.version,
  );
}

async function readLock(file) {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch {
    return undefined;
  }
}
