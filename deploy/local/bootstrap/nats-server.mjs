import { execFileSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { mkdir } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { step } from "./progress.mjs";
import { Failure, runQuietly } from "./run.mjs";

// One of which no hole is known: packages/mbus/src/server-advisories.ts has the list, by which others are refused.
const VERSION = "v2.12.15";
const MODULE = `github.com/nats-io/nats-server/v2@${VERSION}`;
const CALLOUT_SINCE_MINOR = 10;
const INSTALL_TIMEOUT_MS = 5 * 60_000;
// Where distributions put it; PATH of an ordinary user often lacks them.
const SYSTEM_FOLDERS = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"];

/**
 * Makes sure that `nats-server` can be run by its name, by this process and those it starts: found, else installed
 * from the system's packages when we may, else by Go into `cacheFolder`.
 */
export async function ensureNatsServer(cacheFolder, systemFolders = SYSTEM_FOLDERS) {
  // What an earlier version of this file installed may be one of those that are refused now.
  const ownFolder = join(cacheFolder, `nats-server-${VERSION}`);
  const find = () => findProgram("nats-server", [...pathFolders(), ...systemFolders, ownFolder]);
  const found = find() ?? ((await install(ownFolder)) ? find() : undefined);
  if (!found)
    throw new Failure(
      "nats-server is missing, and there is neither Go nor (for root) apt-get to install it with. Do one of: " +
        "`sudo apt-get install nats-server`, `brew install nats-server`, " +
        `\`go install ${MODULE}\` with its folder on PATH; then try again`,
    );
  const folder = dirname(found);
  if (!pathFolders().includes(folder)) process.env.PATH = [...pathFolders(), folder].join(delimiter);
}

/**
 * Makes sure that tests of auth callout have a server that knows it, where Go can make one: distributions may have an older
 * one. They find it by DISKMESH_CALLOUT_NATS_SERVER.
 */
export async function ensureCalloutServer(cacheFolder) {
  const version = execFileSync("nats-server", ["--version"], { encoding: "utf8" });
  const [, major = 0, minor = 0] = /v?(\d+)\.(\d+)\./.exec(version) ?? [];
  if (Number(major) > 2 || Number(minor) >= CALLOUT_SINCE_MINOR) return;
  const folder = join(cacheFolder, `nats-server-${VERSION}`);
  const program = join(folder, "nats-server");
  if (isExecutable(program) || (await installByGo(folder))) process.env.DISKMESH_CALLOUT_NATS_SERVER = program;
}

function pathFolders() {
  return (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
}

function findProgram(name, folders) {
  return folders.map((folder) => join(folder, name)).find((file) => isExecutable(file));
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function install(cacheFolder) {
  const errors = [];
  for (const way of [installByApt, installByGo]) {
    try {
      if (await way(cacheFolder)) return true;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      errors.push(error.message);
    }
  }
  if (errors.length > 0)
    throw new Failure(`${errors.join("\n")}\ncould not install nats-server: do so by hand and try again`);
  return false;
}

// First where it is allowed: seconds, against up to a minute of compiling.
async function installByApt() {
  const apt = process.getuid?.() === 0 ? findProgram("apt-get", pathFolders()) : undefined;
  if (!apt) return false;
  const options = { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" }, timeoutMs: INSTALL_TIMEOUT_MS };
  await step("installing nats-server (apt-get install nats-server)", async () => {
    const install = () => runQuietly(apt, ["install", "-y", "--no-install-recommends", "nats-server"], options);
    // The lists of packages may be missing or old.
    await install().catch(async () => {
      await runQuietly(apt, ["update"], options);
      await install();
    });
  });
  return true;
}

async function installByGo(cacheFolder) {
  const go = findProgram("go", [...pathFolders(), "/usr/local/go/bin"]);
  if (!go) return false;
  await mkdir(cacheFolder, { recursive: true });
  const env = { ...process.env, GOBIN: cacheFolder };
  await step(`installing nats-server (go install ${MODULE})`, () =>
    runQuietly(go, ["install", MODULE], { env, timeoutMs: INSTALL_TIMEOUT_MS }),
  );
  return true;
}
