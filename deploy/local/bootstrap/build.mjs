import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { step } from "./progress.mjs";
import { Failure, runQuietly } from "./run.mjs";

const BUILD_TIMEOUT_MS = 10 * 60_000;
const OUTPUT = /\.(?:js|js\.map|d\.ts)$/;

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
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name))))
    .filter((file) => file.endsWith(".js"));
}

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

// Deletes outputs whose source was deleted or renamed, because the compiler keeps them and an old test among them would
// still run.
function dropOrphans(workspace) {
  const dist = join(workspace, "dist");
  if (!existsSync(dist)) return;
  for (const entry of readdirSync(dist, { recursive: true })) {
    const name = String(entry);
    const sources = [".ts", ".tsx"].map((ending) => join(workspace, "src", name.replace(OUTPUT, ending)));
    if (OUTPUT.test(name) && !sources.some((source) => existsSync(source))) rmSync(join(dist, name));
  }
}
