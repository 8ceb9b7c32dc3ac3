import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { builtFiles, workspaceFolders } from "./build.mjs";

/** Matches a module name in an import, or the file name of a started process. */
const MODULE = /["'`](@diskmesh\/[\w./-]+|[^"'`\s]+\.js)["'`]/g;

/** Returns the test files that changed since the last commit, or that import or start a changed file. */
export function touchedTests(root, tests) {
  const files = builtFiles(root);
  const named = new Map(files.map((file) => [file, modulesIn(file, files)]));
  const touched = new Set(changedPaths(root).flatMap((path) => touchedBy(root, path, tests)));
  for (let known = 0; known < touched.size; ) {
    known = touched.size;
    for (const [file, modules] of named) if (modules.some((one) => touched.has(one))) touched.add(file);
  }
  return tests.filter((test) => touched.has(test));
}

function changedPaths(root) {
  const git = (...args) => execFileSync("git", args, { cwd: root, encoding: "utf8" }).split("\0").slice(0, -1);
  return [...git("diff", "--name-only", "-z", "HEAD"), ...git("ls-files", "--others", "--exclude-standard", "-z")];
}

function touchedBy(root, path, tests) {
  const source = path.match(/^(.*)\/src\/(.*)\.tsx?$/);
  if (source) return [join(root, source[1], "dist", `${source[2]}.js`)];
  if (path.endsWith(".md")) return [];
  // A file that the compiler does not know, such as a setting, affects all tests of its workspace, or all tests.
  const workspace = workspaceFolders(root).find((folder) => path.startsWith(`${folder}/`));
  return tests.filter((test) => test.startsWith(join(root, workspace ?? "", "/")));
}

function modulesIn(file, files) {
  return [...readFileSync(file, "utf8").matchAll(MODULE)].flatMap(([, name]) => {
    if (/^\.\.?\/[^$]*$/.test(name)) return [resolve(dirname(file), name)];
    if (name.startsWith("@diskmesh/")) return resolvedFrom(file, name);
    // A path with a placeholder matches every file with the same end.
    const end = name.slice(name.lastIndexOf("}") + 1).replace(/^[./]*/, "/");
    return files.filter((one) => one.endsWith(end));
  });
}

function resolvedFrom(file, name) {
  try {
    return [createRequire(file).resolve(name)];
  } catch {
    return [];
  }
}
