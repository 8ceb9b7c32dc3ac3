import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TestMesh } from "../mesh/test-mesh.js";
import { shellOfPages } from "../mesh/typed-lines.js";
import { isPrinted, type TypedBlock, typedBlocks } from "../operations/document.js";
import { repositoryFolder } from "../repository-folder.js";

const PAGE = "docs/operate/the-registry-is-gone.md";
const TIMEOUT_MS = 240_000;

/** The blocks of the page by section, in order. */
const sections = new Map<string, TypedBlock[]>();
for (const block of typedBlocks(readFileSync(join(repositoryFolder, PAGE), "utf8")))
  sections.set(block.section, [...(sections.get(block.section) ?? []), block]);

/** Blocks of the page that nobody has typed yet, by section and number. */
export const UNTYPED = new Set([...sections].flatMap(([section, blocks]) => blocks.map((_, at) => `${section} ${at}`)));

/** Types a block of the page into bash, in the folder of the mesh, and compares what it prints. Returns that. */
export async function typeBlock(
  mesh: TestMesh,
  [section, index]: readonly [section: string, index: number],
  variables: Readonly<Record<string, string>>,
): Promise<string> {
  const block = sections.get(section)?.[index];
  if (block === undefined) throw new Error(`${PAGE} has no block ${index} in ${section}`);
  UNTYPED.delete(`${section} ${index}`);
  const prelude = [
    "set -eo pipefail",
    shellOfPages(mesh),
    // The test has started it.
    'systemctl() { test "$*" = "start diskmesh-disk-registry"; }',
  ];
  const env = { ...process.env, ...mesh.commandEnvironment, ...variables };
  const options = { cwd: mesh.folder, env, timeout: TIMEOUT_MS };
  const { stdout } = await promisify(execFile)("bash", ["-c", [...prelude, block.content].join("\n")], options);
  if (block.expected !== undefined && !isPrinted(block.expected, stdout))
    throw new Error(`${PAGE}:${block.line} says that this is printed:\n${block.expected}\nand this was:\n${stdout}`);
  return stdout;
}
