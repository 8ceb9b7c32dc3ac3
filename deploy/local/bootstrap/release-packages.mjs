import { cpSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Failure } from "./run.mjs";

const PLATFORM = `${process.platform}-${process.arch}`;
/** Packages without an import, whose files the page loads by name. */
const FOUND_BY_NAME = ["preact", "uplot"];
/** Packages that are needed only to compile native code. */
const TO_COMPILE = ["node-addon-api"];
const NEEDED_FILE =
  /(?:\.[cm]?js|\/uPlot\.min\.css|\.json|\.node|\.proto)$|(?:^|\/)(?:licen[cs]e|notice|copying)[^/]*$/i;
const NOT_NEEDED =
  /^(?:\.[^/]*|node_modules|bin|tests?|test-utils|benchmarks?|debug|compat|devtools|build\/es\w+)\/|^rollup\.config|\/\.|\.min\.js$|\.musl\.node$/;

/**
 * Copies packages and their dependencies to `folder`, in the same layout as below `root`. Omits files that no program
 * loads. Returns the copied folders, relative to the root.
 */
export function copyPackages(root, names, folder) {
  const packages = new Set(
    [...names, ...FOUND_BY_NAME].map((name) => `node_modules/${/^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0]}`),
  );
  for (const from of packages) {
    if (!existsSync(join(root, from)))
      throw new Failure(`${from} is missing: there is no release for ${PLATFORM} without it`);
    for (const name of importedBy(manifestOf(root, from))) packages.add(folderOf(root, name, from));
    for (const file of filesOf(join(root, from))) cpSync(join(root, from, file), join(folder, from, file));
  }
  return [...packages];
}

function importedBy({ dependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} }) {
  const peers = Object.keys(peerDependencies).filter((name) => !peerDependenciesMeta[name]?.optional);
  return [...Object.keys(dependencies), ...peers].filter((name) => !TO_COMPILE.includes(name));
}

/** Returns the folder of a package, as Node resolves it: beside the importer, or in a folder above. */
function folderOf(root, name, importer) {
  for (let at = importer; at !== "."; at = dirname(at))
    if (existsSync(join(root, at, "node_modules", name))) return join(at, "node_modules", name);
  return join("node_modules", name);
}

function filesOf(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .filter((file) => NEEDED_FILE.test(file) && !NOT_NEEDED.test(file) && isOfPlatform(file));
}

/** Returns whether a file is for this platform. Prebuilt code for other platforms is larger than everything else. */
function isOfPlatform(file) {
  return !file.startsWith("prebuilds/") || file.startsWith(`prebuilds/${PLATFORM}/`);
}

/** Returns the licence of each copied or bundled package. */
export function licencesOf(root, bundled, copied) {
  const ofBundled = bundled.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0]);
  const packages = [...new Set([...copied, ...ofBundled])].filter((from) => from !== undefined).sort();
  const texts = packages.map((from) => {
    const { name, version, license } = manifestOf(root, from);
    if (typeof license !== "string") throw new Failure(`${from}/package.json names no license`);
    const files = readdirSync(join(root, from), { withFileTypes: true })
      .filter((entry) => entry.isFile() && /^(?:licen[cs]e|notice|copying)/i.test(entry.name))
      .map((entry) => entry.name)
      .sort();
    const words = files.map((file) => readFileSync(join(root, from, file), "utf8").trim());
    return [`${name} ${version}: ${license}`, ...words].join("\n\n");
  });
  const line = "=".repeat(80);
  return `Parts of these packages are in this archive, each under its own licence.\n\n${texts.join(`\n\n${line}\n`)}\n`;
}

function manifestOf(root, folder) {
  return JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
}
