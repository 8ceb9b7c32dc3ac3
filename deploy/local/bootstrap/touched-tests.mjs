import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { builtFiles, workspaceFolders } from "./build.mjs";

/** A name of a module, be it imported or the file of a process that is started. */
const MODULE = /["'`](@diskmesh\/[\w./-]+|[^"'`\s]+\.js)["'`]/g;

/** Of the test files given, those that run, start or lie beside what differs from the last commit. */
export function touchedTests(root, tests) {
  const importers = importersOf(root);
  const touched = new Set();
  const touch = (file) => {
    if (touched.has(file)) return;
    touched.add(file);
    for (const importer of importers.get(file) ?? []) touch(importer);
  };
  for (const path of changedPaths(root)) {
    const source = path.match(/^(.*)\/src\/(.*)\.ts$/);
    if (source) touch(join(root, source[1], "dist", `${source[2]}.js`));
    else if (!path.endsWith(".md")) for (const test of testsBeside(root, path, tests)) touch(test);
  }
  return tests.filter((test) => touched.has(test));
}

function changedPaths(root) {
  const git = (...args) => execFileSync("git", args, { cwd: root, encoding: "utf8" }).split("\0").slice(0, -1);
  return [...git("diff", "--name-only", "-z", "HEAD"), ...git("ls-files", "--others", "--exclude-standard", "-z")];
}

// Settings and what no compiler knows: all tests of the workspace, or all that there are.
function testsBeside(root, path, tests) {
  const workspace = workspaceFolders(root).find((folder) => path.startsWith(`${folder}/`));
  return workspace === undefined ? tests : tests.filter((test) => test.startsWith(join(root, workspace, "/")));
}

function importersOf(root) {
  const files = builtFiles(root);
  const importers = new Map(files.map((file) => [file, []]));
  for (const file of files)
    for (const [, name] of readFileSync(file, "utf8").matchAll(MODULE))
      for (const module of modulesOf(name, file, files)) importers.get(module)?.push(file);
  return importers;
}

function modulesOf(name, file, files) {
  if (name.startsWith("@diskmesh/")) {
    try {
      return [createRequire(file).resolve(name)];
    } catch {
      return [];
    }
  }
  if (/^\.\.?\/[^$]*$/.test(name)) return [resolve(dirname(file), name)];
  // A path that is put together: every file that it could be.
  const end = name.slice(name.lastIndexOf("}") + 1).replace(/^[./]*/, "/");
  return files.filter((one) => one.endsWith(end));
}
