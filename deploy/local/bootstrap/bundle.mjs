import { readdirSync, readFileSync, rmSync } from "node:fs";
import { isBuiltin } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtFiles, changedMs, TARGET } from "./build.mjs";
import { step } from "./progress.mjs";
import { Failure } from "./run.mjs";

const DESCRIPTORS = "packages/rpc/dist/reflection/descriptors-thread.js";
/** Program of a driver's process, and its thread. */
export const DRIVERS = ["packages/driver/dist/driver-runner.js", "packages/driver/dist/orphan-watch.js"];
/**
 * Further entry points by service: worker threads, drivers, and test variants. Each is started by its file name, so it
 * needs its own file.
 * @public its test bundles them
 */
export const OTHERS = {
  director: [
    DESCRIPTORS,
    ...DRIVERS,
    "services/director/dist/yaml/worker.js",
    "services/director/dist/init.js",
    "services/director/dist/testing/crashing-main.js",
    "services/director/dist/testing/tuned-main.js",
  ],
  "cpi-dispatcher": [DESCRIPTORS],
  "disk-registry": [
    DESCRIPTORS,
    "services/disk-registry/dist/init.js",
    "services/disk-registry/dist/testing/tuned-main.js",
  ],
  "disk-agent": [DESCRIPTORS, ...DRIVERS, "services/disk-agent/dist/testing/tuned-main.js"],
  "csi-driver": [],
};
/** Packages that find their native code relative to their own files, and therefore stay outside the bundle. */
const NATIVE = ["fs-native-extensions"];
// Bundled CommonJS packages need `require`.
const BANNER = `import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);`;

/**
 * Bundles the services with their imports into a few files, with `bundle/NAME-main.js` as entry points. Starting from
 * some 700 separate files takes twice the CPU time. Sets DISKMESH_BUNDLED, so that processes started from here use the
 * bundles.
 */
export async function ensureBundled(root) {
  const made = Object.keys(OTHERS).map((name) => join(root, "bundle", `${name}-main.js`));
  const from = [...builtFiles(root), join(root, "node_modules/.package-lock.json"), fileURLToPath(import.meta.url)];
  if (Math.min(...made.map(changedMs)) < Math.max(...from.map(changedMs)))
    await step("bundling the services (esbuild)", () => bundleAll(root), { quietMs: 1500 });
  process.env.DISKMESH_BUNDLED = "true";
}

async function bundleAll(root) {
  const entryPoints = Object.entries(OTHERS).flatMap(([service, others]) =>
    [`services/${service}/dist/main.js`, ...others].map((file) => ({ in: file, out: bundleName(service, file) })),
  );
  try {
    // One run for all services, because they have most of their code in common.
    await bundleInto(root, "bundle", { entryPoints });
  } catch (error) {
    throw new Failure(`${error.message}\nthe services could not be bundled`);
  }
}

/** Threads and drivers are started by the name of their file; services have programs of equal names. */
function bundleName(service, file) {
  const name = basename(file, ".js");
  return /(?:^|-)main$|^init$/.test(name) ? `${service}-${name}` : name;
}

/**
 * Bundles `entryPoints`, paths below the root, with their imports into `outdir`, and deletes other files there.
 * Resolves to the bundled source files, relative to the root, and the packages left outside the bundle.
 */
export async function bundleInto(root, outdir, { entryPoints, external = [] }) {
  const { build } = await import("esbuild");
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints,
    entryNames: "[name]",
    outdir,
    bundle: true,
    splitting: true,
    platform: "node",
    target: TARGET,
    format: "esm",
    banner: { js: BANNER },
    external: [...NATIVE, ...external],
    plugins: [{ name: "lazy", setup: leaveLazy }],
    // Source maps give the source lines in logs (--enable-source-maps). esbuild's `keepNames` would cost the services a
    // twelfth of their CPU time, because it names each function whenever it is created.
    sourcemap: true,
    sourcesContent: false,
    metafile: true,
    logLevel: "silent",
  });
  const made = Object.keys(metafile.outputs).map((file) => join(root, file));
  // Deletes files of the former bundle last, because a running service may load them until then.
  for (const file of readdirSync(join(root, outdir)))
    if (!made.includes(join(root, outdir, file))) rmSync(join(root, outdir, file));
  const renamed = made.filter((file) => file.endsWith(".js")).flatMap(renamedErrors);
  if (renamed.length > 0) {
    // Without the entry points the next start bundles again.
    rmSync(join(root, outdir), { recursive: true });
    throw new Error(`${renamed.join("; ")}: let no other module have an error of its name`);
  }
  const lazy = Object.values(metafile.inputs)
    .flatMap(({ imports }) => imports)
    .filter((one) => one.external && one.kind === "dynamic-import" && !isBuiltin(one.path))
    .map(({ path }) => path);
  return { inputs: Object.keys(metafile.inputs), packages: [...NATIVE, ...lazy] };
}

/** Returns a message for each error class that esbuild renamed, because logs show the class name. */
function renamedErrors(file) {
  const renamed = [];
  let source = "";
  for (const line of readFileSync(file, "utf8").split("\n")) {
    source = /^\/\/ (\S+\.js)$/.exec(line)?.[1] ?? source;
    const [, variable, name = variable] = /^(?:var (\w+) = )?class (?:(\w+) )?extends /.exec(line) ?? [];
    if (/^(packages|services)\//.test(source) && /^_\w*Error$|Error\d+$/.test(name ?? ""))
      renamed.push(`${source} would name a class ${name}`);
  }
  return renamed;
}

// Keeps third-party packages that are loaded on demand outside the bundle.
function leaveLazy({ onResolve }) {
  onResolve({ filter: /^[^./]/ }, ({ kind, path }) =>
    kind === "dynamic-import" && !path.startsWith("@diskmesh/") ? { path, external: true } : undefined,
  );
}
