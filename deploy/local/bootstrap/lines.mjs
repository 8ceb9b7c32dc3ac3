import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { workspaceFolders } from "./build.mjs";
import { Failure } from "./run.mjs";
import { sourceFiles } from "./source-files.mjs";

/** Budget of code lines of each workspace: source, tests, and what only tests use. */
const BUDGET = "deploy/local/lines.json";
/** A budget further above the truth than this is lowered, so that nobody saves lines for later. */
const MAX_SPARE = 0.02;

/** Throws a Failure unless each workspace has at most as many lines as its budget, and about as many. */
export function checkLines(root) {
  const budgets = JSON.parse(readFileSync(join(root, BUDGET), "utf8"));
  const counts = lineCounts(root);
  const faults = [...new Set([...Object.keys(counts), ...Object.keys(budgets)])].flatMap((workspace) =>
    ["source", "tests", "support"].flatMap((kind) => {
      const [count, budget] = [counts[workspace]?.[kind] ?? 0, budgets[workspace]?.[kind] ?? 0];
      if (count > budget)
        return [`${workspace} has ${count} lines of ${kind}, above its budget of ${budget}: cut, or raise the budget`];
      if (budget - count > budget * MAX_SPARE)
        return [`${workspace} has ${count} lines of ${kind}, far below its budget of ${budget}: lower the budget`];
      return [];
    }),
  );
  if (faults.length === 0) return;
  throw new Failure(
    `${faults.join("\n")}\n\`npm run lines\` writes what there is into ${BUDGET}; the commit that raises a budget names the promise that needs it`,
  );
}

/** Makes each budget what its workspace has. */
export function writeLines(root) {
  const counts = Object.entries(lineCounts(root)).sort(([one], [other]) => (one < other ? -1 : 1));
  const rows = counts.map(
    ([workspace, { source, tests, support }]) =>
      `  "${workspace}": { "source": ${source}, "tests": ${tests}, "support": ${support} }`,
  );
  writeFileSync(join(root, BUDGET), `{\n${rows.join(",\n")}\n}\n`);
}

/** Returns the lines of handwritten code of each workspace, without blank lines and comments. */
function lineCounts(root) {
  const workspaces = workspaceFolders(root);
  const counts = {};
  for (const file of sourceFiles(root)) {
    const workspace = workspaces.find((folder) => file.startsWith(`${folder}/`));
    counts[workspace] ??= { source: 0, tests: 0, support: 0 };
    counts[workspace][kindOf(file)] += codeLines(readFileSync(join(root, file), "utf8"));
  }
  return counts;
}

function kindOf(file) {
  if (/\.test\.tsx?$/.test(file)) return "tests";
  return /^test\/|^packages\/testkit\/|\/testing\/|\/simulation\/|\/contract\//.test(file) ? "support" : "source";
}

function codeLines(text) {
  let [count, isComment] = [0, false];
  for (const raw of text.split("\n")) {
    const line = raw.trim();
    isComment ||= line.startsWith("/*");
    if (!isComment && line !== "" && !line.startsWith("//")) count++;
    if (line.endsWith("*/")) isComment = false;
  }
  return count;
}
