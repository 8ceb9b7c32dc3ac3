import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { workspaceFolders } from "./build.mjs";

const MAX_LINES = 400;
/** Tests and what only tests use. */
const FOR_TESTS = /(?:\.test|-fixture)\.ts$|\/src\/(?:testing|contract)\//;
const IMPORT =
  /^\s*(?:import|export)\s+(type\s)?(?:[^"';]*?\sfrom\s+)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']/gm;

/** What in the sources breaks the rules of CONTRIBUTING.md that no linter knows, one line each. */
export function brokenRules(root) {
  return workspaceFolders(root).flatMap((workspace) =>
    sourcesOf(root, workspace).flatMap((file) => {
      const text = readFileSync(join(root, file), "utf8");
      const found = importsOf(text);
      return [
        ...tooLong(file, text),
        ...found.flatMap((one) => impureModel(workspace, file, one)),
        ...found.flatMap((one) => wrongLayer(workspace, file, one)),
      ];
    }),
  );
}

function sourcesOf(root, workspace) {
  const folder = join(root, workspace, "src");
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true })
    .map((name) => `${workspace}/src/${name}`)
    .filter((file) => file.endsWith(".ts") && !file.includes("/generated/"));
}

function importsOf(text) {
  return [...text.matchAll(IMPORT)].map(([, type, from, dynamic]) => ({
    typeOnly: type !== undefined,
    from: from ?? dynamic,
  }));
}

function tooLong(file, text) {
  const lines = text.split("\n").length - 1;
  return lines > MAX_LINES && !FOR_TESTS.test(file)
    ? [`${file}: ${lines} lines, more than ${MAX_LINES}: split it by idea`]
    : [];
}

// Decisions stay runnable without any machine: a simulator drives them.
function impureModel(workspace, file, { typeOnly, from }) {
  const model = `${workspace}/src/model/`;
  if (!file.startsWith(model) || FOR_TESTS.test(file)) return [];
  // Types of other files vanish in the build and bring nothing in.
  const ours = from.startsWith(".") && (typeOnly || normalize(join(dirname(file), from)).startsWith(model));
  const allowed = ours || from === "@diskmesh/domain" || (typeOnly && from === "@diskmesh/tablet");
  return allowed
    ? []
    : [`${file}: model/ may import only model/, @diskmesh/domain and types of @diskmesh/tablet, not ${from}`];
}

// services -> packages -> nothing of ours upward; tests may start anything.
function wrongLayer(workspace, file, { from }) {
  if (FOR_TESTS.test(file)) return [];
  const name = from.match(/^@diskmesh\/([^/]+)/)?.[1];
  const service = /^(?:director|cpi-dispatcher|disk-registry|disk-agent)$/;
  const upward = name !== undefined && (service.test(name) || name === "local" || name === "test");
  const layered = workspace.startsWith("packages/") || workspace.startsWith("services/");
  if (layered && upward) return [`${file}: imports ${from}; services and packages import packages only`];
  if (workspace.startsWith("services/") && name === "testkit") return [`${file}: imports the testkit outside a test`];
  return [];
}
