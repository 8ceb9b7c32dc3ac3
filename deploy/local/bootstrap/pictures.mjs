import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "./run.mjs";

const FOLDER = "docs/pictures";
/** Sources of the pictures in docs: the page, its data, and the output of the command. */
const SHOWN = [
  "packages/page/src",
  "packages/page/public",
  "services/director/src/page",
  "packages/cli/src/output/output.ts",
  "packages/cli/src/actions/fleet/hosts.ts",
  "packages/cli/src/actions/why.ts",
  "test/src/pictures",
];
const MADE_FROM = "made-from.json";

/** Stores the hashes of the present sources, after new pictures were made. */
export function notePictures(root) {
  writeFileSync(join(root, FOLDER, MADE_FROM), `${JSON.stringify(shownBy(root), null, 2)}\n`);
}

/** Throws a Failure when a source of the pictures has changed since they were made. */
export function checkPictures(root) {
  const file = join(root, FOLDER, MADE_FROM);
  const before = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
  const now = shownBy(root);
  const changed = [...new Set([...Object.keys(before), ...Object.keys(now)])].filter(
    (each) => before[each] !== now[each],
  );
  if (changed.length === 0) return;
  throw new Failure(`${FOLDER} is stale: run \`npm run pictures\` and commit it; changed since: ${changed.join(", ")}`);
}

/** Returns a hash of each source file of the pictures. */
function shownBy(root) {
  const files = SHOWN.flatMap((path) =>
    /\.\w+$/.test(path) ? [path] : readdirSync(join(root, path)).map((name) => `${path}/${name}`),
  );
  const shown = files.filter((file) => !file.endsWith(".test.ts")).sort();
  return Object.fromEntries(shown.map((file) => [file, hashOf(readFileSync(join(root, file)))]));
}

function hashOf(bytes) {
  return createHash("sha256").update(bytes).digest("hex").slice(0, 16);
}
