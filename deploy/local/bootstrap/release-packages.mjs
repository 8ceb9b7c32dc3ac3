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

/** Returns the folders of all copied or bundled packages, relative to the root, in order. */
export function packagesIn(bundled, copied) {
  const ofBundled = bundled.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0]);
  return [...new Set([...copied, ...ofBundled])].filter((from) => from !== undefined).sort();
}

/** Returns the licence of each package. */
export function licencesOf(root, packages) {
  const texts = packages.map((from) => {
    const { name, version, license } = manifestOf(root, from);
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

/** Returns the bill of materials of CycloneDX 1.5, without a time or serial number, so that equal sources give equal bytes. */
export function billOfMaterials(root, version, packages) {
  const diskmesh = { type: "application", "bom-ref": "diskmesh", name: "diskmesh", version };
  const components = new Map();
  for (const from of packages) {
    const { name, version: ofPackage, license } = manifestOf(root, from);
    const purl = `pkg:npm/${name.replace("@", "%40")}@${ofPackage}`;
    const licenses = [{ expression: license }];
    components.set(purl, { type: "library", "bom-ref": purl, name, version: ofPackage, licenses, purl });
  }
  const bill = { bomFormat: "CycloneDX", specVersion: "1.5", version: 1, metadata: { component: diskmesh } };
  return `${JSON.stringify({ ...bill, components: [...components.values()] }, null, 2)}\n`;
}

function manifestOf(root, folder) {
  const manifest = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
  if (typeof manifest.license !== "string") throw new Failure(`${folder}/package.json names no license`);
  return manifest;
}
