import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { isBuiltin } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtFiles } from "./build.mjs";
import { step } from "./progress.mjs";
import { Failure } from "./run.mjs";

const DESCRIPTORS = "packages/rpc/dist/reflection/descriptors-thread.js";
/** The program of a driver's process, and its thread. */
const DRIVERS = ["packages/driver/dist/driver-runner.js", "packages/driver/dist/orphan-watch.js"];
/**
 * Programs of their own beside a service's: its threads, drivers, and the programs that tests start in its place.
 *
 * @public its test makes them
 */
export const OTHERS = {
  director: [
    DESCRIPTORS,
    ...DRIVERS,
    "services/director/dist/yaml/worker.js",
    "services/director/dist/testing/crashing-main.js",
    "services/director/dist/testing/tuned-main.js",
  ],
  "cpi-dispatcher": [DESCRIPTORS],
  "disk-registry": [DESCRIPTORS, "services/disk-registry/dist/testing/tuned-main.js"],
  "disk-agent": [DESCRIPTORS, ...DRIVERS, "services/disk-agent/dist/testing/tuned-main.js"],
};
/** They find their native code by where they lie themselves. */
const NATIVE = ["fs-native-extensions"];
// CommonJS modules rely on these names.
const BANNER = `import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);`;

/**
 * Makes of each service, with all that it imports, a few files, `services/NAME/bundle/main.js` first: a start that has to
 * find and read some 700 takes twice the processor time. Whoever is started from here starts these.
 */
export async function ensureBundled(root) {
  const made = Object.keys(OTHERS).map((name) => join(root, "services", name, "bundle/main.js"));
  const from = [...builtFiles(root), join(root, "node_modules/.package-lock.json"), fileURLToPath(import.meta.url)];
  if (Math.min(...made.map(changedMs)) < Math.max(...from.map(changedMs)))
    await step("bundling the services (esbuild)", () => bundleAll(root), { quietMs: 1500 });
  process.env.DISKMESH_BUNDLED = "true";
}

function changedMs(file) {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

async function bundleAll(root) {
  try {
    await Promise.all(Object.keys(OTHERS).map((name) => bundle(root, name)));
  } catch (error) {
    throw new Failure(`${error.message}\nthe services could not be bundled`);
  }
}

async function bundle(root, name) {
  const entryPoints = [`services/${name}/dist/main.js`, ...OTHERS[name]];
  await bundleInto(root, `services/${name}/bundle`, { entryPoints });
}

/**
 * Makes of `entryPoints`, paths below the root, with all that they import, a few files in `outdir`, and deletes what else
 * is there. Resolves to the files of which it made them, relative to the root, and the packages that they find for themselves.
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
    target: "node20.19",
    format: "esm",
    banner: { js: BANNER },
    external: [...NATIVE, ...external],
    plugins: [{ name: "lazy", setup: leaveLazy }],
    // With --enable-source-maps logs name the lines of the sources. esbuild's own way to keep names, `keepNames`, costs
    // the services a twelfth of their processor time: it names each function whenever one is made.
    sourcemap: true,
    sourcesContent: false,
    metafile: true,
    logLevel: "silent",
  });
  const made = Object.keys(metafile.outputs).map((file) => join(root, file));
  // Parts of the bundle before, which a service that was started from it had until now.
  for (const file of readdirSync(join(root, outdir)))
    if (!made.includes(join(root, outdir, file))) rmSync(join(root, outdir, file));
  const renamed = made.filter((file) => file.endsWith(".js")).flatMap(renamedErrors);
  if (renamed.length > 0) {
    // Without it the next start bundles again.
    rmSync(join(root, outdir, basename(entryPoints[0])));
    throw new Error(`${renamed.join("; ")}: let no other module have an error of its name`);
  }
  const lazy = Object.values(metafile.inputs)
    .flatMap(({ imports }) => imports)
    .filter((one) => one.external && one.kind === "dynamic-import" && !isBuiltin(one.path))
    .map(({ path }) => path);
  return { inputs: Object.keys(metafile.inputs), packages: [...NATIVE, ...lazy] };
}

/** An error of ours is told by the name of its class, so that this may not be another one in a bundle. */
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

// A package of others that is loaded only when it is needed stays where it is.
function leaveLazy({ onResolve }) {
  onResolve({ filter: /^[^./]/ }, ({ kind, path }) =>
    kind === "dynamic-import" && !path.startsWith("@diskmesh/") ? { path, external: true } : undefined,
  );
}
