import { readdirSync } from "node:fs";
import { join } from "node:path";
import { workspaceFolders } from "./build.mjs";

const GENERATED = "packages/api/src/generated/";

/** Returns the handwritten TypeScript and JavaScript files, relative to the root. */
export function sourceFiles(root) {
  return [...workspaceFolders(root).map((workspace) => `${workspace}/src`), "deploy/local/bootstrap"]
    .flatMap((folder) => filesIn(root, folder))
    .filter((file) => /\.(?:tsx?|mjs)$/.test(file) && !file.startsWith(GENERATED))
    .sort();
}

/** Returns diskmesh's own proto files, relative to the root. */
export function protoFiles(root) {
  return filesIn(root, "proto/diskmesh").filter((file) => file.endsWith(".proto"));
}

function filesIn(root, folder) {
  const names = readdirSync(join(root, folder), { recursive: true });
  return names.map((name) => `${folder}/${String(name).replaceAll("\\", "/")}`);
}
