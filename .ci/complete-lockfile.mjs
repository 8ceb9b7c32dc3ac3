// Run after `npm install` changed package-lock.json. A registry mirror may lack the builds for other platforms of
// packages like biome; npm then writes a lock file that `npm ci` refuses. This adds their entries, and removes the
// addresses of registries, so that the file is the same wherever it was made.
import { readFileSync, writeFileSync } from "node:fs";

const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
const platforms = /(?:^|[-/])(aix|android|darwin|freebsd|linux|netbsd|openbsd|openharmony|sunos|win32)(?:-|$)/;
const architectures = /-(arm64|armv7|arm|x64|ia32|loong64|mips64el|ppc64le|ppc64|riscv64|s390x|wasm32)(?:-|$)/;

for (const owner of Object.values(lock.packages)) {
  if (/^https?:/.test(owner.resolved ?? "")) delete owner.resolved;
  for (const [name, version] of Object.entries(owner.optionalDependencies ?? {})) {
    const entry = lock.packages[`node_modules/${name}`];
    if (entry?.version) continue;
    const os = platforms.exec(name)?.[1];
    const cpu = architectures.exec(name)?.[1];
    if (!os) throw new Error(`${name} is missing from package-lock.json and names no platform`);
    lock.packages[`node_modules/${name}`] = {
      version,
      ...(cpu && { cpu: [cpu === "armv7" ? "arm" : cpu] }),
      ...(owner.dev && { dev: true }),
      license: owner.license,
      optional: true,
      os: [os],
    };
  }
}
const [root, ...others] = Object.entries(lock.packages);
lock.packages = Object.fromEntries([root, ...others.sort(([a], [b]) => (a < b ? -1 : 1))]);
writeFileSync("package-lock.json", `${JSON.stringify(lock, null, 2)}\n`);
