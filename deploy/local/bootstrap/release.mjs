import { createHash } from "node:crypto";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { bundleInto, DRIVERS, OTHERS } from "./bundle.mjs";
import { withLock } from "./lock.mjs";
import { step } from "./progress.mjs";
import { COPIES, isLeftOut, rewritePages } from "./release-docs.mjs";
import { billOfMaterials, copyPackages, licencesOf, packagesIn } from "./release-packages.mjs";
import { Failure, runQuietly } from "./run.mjs";

const TAR_TIMEOUT_MS = 5 * 60_000;
/** Constant modification time of all packed files, so that equal contents give equal bytes. */
const PACKED_AT = "@315532800";
/** Files that only tests start. */
const FOR_TESTS = /\/testing\//;
/** Further programs in a service's folder, which the operator's command or a person starts. */
const BESIDE = {
  director: ["restore", "check-store", "hash-password"].map((name) => `services/director/dist/${name}.js`),
  "cpi-dispatcher": ["services/cpi-dispatcher/dist/try-cpi.js"],
  "disk-registry": ["restore", "check-store"].map((name) => `services/disk-registry/dist/${name}.js`),
};
/**
 * Programs of `bin/`, each with the folder in `lib/` whose program it starts.
 * @public a test compares the files of deploy/ with it
 */
export const PROGRAMS = {
  diskmesh: "cli",
  "diskmesh-director": "director",
  "diskmesh-cpi-dispatcher": "cpi-dispatcher",
  "diskmesh-disk-registry": "disk-registry",
  "diskmesh-disk-agent": "disk-agent",
  "diskmesh-csi-driver": "csi-driver",
};
/**
 * Default environment variables. A hung device file blocks a thread, and a few such files would block all four threads
 * of Node's default.
 */
const SETTINGS = { "diskmesh-disk-agent": ["UV_THREADPOOL_SIZE", "64"] };
/** Runs `npm run release`: creates `.cache/release/diskmesh-VERSION.tar.gz` and prints its path. */
export async function release(root, args) {
  if (args.length > 0) throw new Failure(`npm run release takes no arguments, and ${args.join(" ")} was given`);
  const { file, sha256, sizeBytes } = await makeRelease(root, join(root, ".cache/release"));
  console.log(`${relative(process.cwd(), file)}: ${(sizeBytes / 1024 ** 2).toFixed(1)} MiB, SHA-256 ${sha256}`);
}

/**
 * Creates an archive in `folder` that contains everything a host of this platform needs beside Node, and a checksum
 * file for `sha256sum --check`. The sources must be compiled. Equal sources give equal bytes.
 * @public its test creates one in another folder
 */
export async function makeRelease(root, folder) {
  const { version } = readJson(join(root, "package.json"));
  const name = `diskmesh-${version}`;
  if (!/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version))
    throw new Failure(
      `package.json says version ${JSON.stringify(version)}: files are named after it, so give one like 1.2.3`,
    );
  const missing = Object.values(COPIES).filter((from) => !existsSync(join(root, from)));
  if (missing.length > 0) throw new Failure(`${missing.join(", ")} is missing: a release is not whole without it`);
  for (const made of [folder, join(root, ".cache")])
    try {
      mkdirSync(made, { recursive: true });
    } catch (error) {
      throw new Failure(`there can be no folder for the release: ${error.message}`);
    }
  // The bundles must be built at this depth below the root, because source maps contain relative paths of the sources.
  const work = mkdtempSync(join(root, ".cache/making-release-"));
  try {
    const bundled = await step("bundling the release (esbuild)", () => bundleAll(root, join(work, name)), {
      quietMs: 1500,
    });
    addFiles(root, join(work, name), bundled);
    const bytes = await step("packing the release", () => pack(work, name), { quietMs: 1500 });
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const file = join(folder, `${name}.tar.gz`);
    await replaceFile(file, bytes);
    await replaceFile(`${file}.sha256`, `${sha256}  ${basename(file)}\n`);
    return { file, version, sha256, sizeBytes: bytes.length };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * Creates the archive in a test run's `folder` once, for the first test that asks for it.
 * @public tests unpack it
 */
export async function ensureRelease(root, folder) {
  return withLock(join(folder, "release.lock"), async () => {
    const made = join(folder, "release.json");
    if (!existsSync(made)) writeFileSync(made, JSON.stringify(await makeRelease(root, folder)));
    return readJson(made);
  });
}

/** Replaces a file atomically, so that a partial file is never visible, even after a kill. */
async function replaceFile(file, content) {
  await writeFile(`${file}.new`, content);
  await rename(`${file}.new`, file);
}

/** Resolves to the bundled source files, relative to the root, and the packages left outside the bundles. */
async function bundleAll(root, folder) {
  const services = Object.keys(OTHERS);
  const wanted = services.map((name) => ({
    outdir: `lib/${name}`,
    entryPoints: [
      `services/${name}/dist/main.js`,
      ...OTHERS[name].filter((file) => !FOR_TESTS.test(file)),
      ...(BESIDE[name] ?? []),
    ],
  }));
  wanted.push({ outdir: "lib/cli", entryPoints: ["packages/cli/dist/main.js", ...DRIVERS] });
  // Vendors' drivers import @diskmesh/driver by name.
  wanted.push({ outdir: "node_modules/@diskmesh/driver", entryPoints: ["packages/driver/dist/index.js"] });
  const drivers = Object.values(readJson(join(root, "packages/drivers/package.json")).exports);
  wanted.push({
    outdir: "node_modules/@diskmesh/drivers",
    entryPoints: drivers.map((entry) => join("packages/drivers", entry.default)),
    external: ["@diskmesh/driver"],
  });
  try {
    const bundles = await Promise.all(
      wanted.map(({ outdir, ...options }) => bundleInto(root, relative(root, join(folder, outdir)), options)),
    );
    return {
      inputs: bundles.flatMap(({ inputs }) => inputs),
      packages: bundles.flatMap(({ packages }) => packages),
    };
  } catch (error) {
    throw new Failure(`${error.message}\nthe release could not be bundled`);
  }
}

function addFiles(root, folder, { inputs, packages }) {
  for (const name of ["driver", "drivers"]) addManifest(root, name, join(folder, "node_modules/@diskmesh", name));
  const page = join(folder, "node_modules/@diskmesh/page");
  for (const part of ["public", "dist"])
    cpSync(join(root, "packages/page", part), join(page, part), {
      recursive: true,
      filter: (file) => !/\.test\.|\.d\.ts$|\.map$|tsbuildinfo$/.test(file),
    });
  addManifest(root, "page", page);
  const included = packagesIn(inputs, copyPackages(root, packages, folder));
  writeFileSync(join(folder, "THIRD-PARTY-LICENSES.txt"), licencesOf(root, included));
  writeFileSync(
    join(folder, "sbom.cdx.json"),
    billOfMaterials(root, readJson(join(root, "package.json")).version, included),
  );
  for (const [to, from] of Object.entries(COPIES))
    cpSync(join(root, from), join(folder, to), { recursive: true, filter: (file) => !isLeftOut(file) });
  rewritePages(root, folder);
  mkdirSync(join(folder, "bin"));
  const template = readFileSync(join(root, "deploy/release/program.sh"), "utf8");
  for (const [name, lib] of Object.entries(PROGRAMS)) {
    const [variable, value] = SETTINGS[name] ?? [];
    const setting = variable === undefined ? "" : `: "\${${variable}:=${value}}"\nexport ${variable}\n`;
    const file = join(folder, "bin", name);
    writeFileSync(
      file,
      template.replace("@LIB@", lib).replace("@SETTING@\n", () => setting),
    );
    chmodSync(file, 0o755);
  }
}

/** Writes a package.json for the package's bundled files, with name, version, licence and exports of the original. */
function addManifest(root, name, folder) {
  const { description, license, type, version, exports, ...manifest } = readJson(
    join(root, "packages", name, "package.json"),
  );
  const bundled = Object.entries(exports)
    .filter(([, entry]) => typeof entry === "string" || existsSync(join(folder, basename(entry.default))))
    .map(([key, entry]) => [key, typeof entry === "string" ? entry : `./${basename(entry.default)}`]);
  const written = { name: manifest.name, version, description, license, type, exports: Object.fromEntries(bundled) };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(written, null, 2)}\n`);
}

/** Packs an archive without names, times or users of this machine. */
async function pack(work, name) {
  const order = ["--sort=name", "--format=ustar", `--mtime=${PACKED_AT}`];
  const owner = ["--owner=0", "--group=0", "--numeric-owner", "--mode=u+rwX,go+rX,go-w"];
  const tar = join(work, "tar");
  await runQuietly("tar", ["--create", "--file", tar, ...order, ...owner, "-C", work, name], {
    timeoutMs: TAR_TIMEOUT_MS,
  });
  return promisify(gzip)(readFileSync(tar));
}

const readJson = (file) => JSON.parse(readFileSync(file, "utf8"));
