import { accessSync, constants, existsSync } from "node:fs";
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { step } from "./progress.mjs";
import { Failure } from "./run.mjs";

const RETRY_EVERY_MS = 200;
const WAIT_AT_MOST_MS = 15 * 60_000;

/** Throws when this user may not write in the clone, before a program that the set-up runs fails in its own words. */
export function requireWritable(root) {
  for (const folder of [root, join(root, ".cache")].filter((each) => existsSync(each)))
    try {
      accessSync(folder, constants.W_OK);
    } catch (error) {
      throw new Failure(
        `this user cannot write in ${folder} (${error.code}), where dependencies and builds go: ` +
          "clone the repository to a folder of your own, or install a release (docs/operate/install.md)",
      );
    }
}

/**
 * Runs `work` while holding a lock file that excludes other processes. Takes over the lock of a dead process. Used for
 * the setup only: data is guarded by the kernel's locks, which need an addon that the setup installs.
 */
export async function withLock(file, work) {
  await makeFolder(dirname(file));
  const mine = `${process.pid} ${(await startTimeOf(process.pid)) ?? ""}\n`;
  if (!(await take(file, mine)))
    await step("waiting for another run to finish setting up", () => waitFor(file, mine), { quietMs: 500 });
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function makeFolder(folder) {
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw new Failure(`cannot make the folder ${folder}: ${error.message}`);
  }
}

async function waitFor(file, mine) {
  const deadlineMs = performance.now() + WAIT_AT_MOST_MS;
  while (!(await take(file, mine))) {
    if (performance.now() > deadlineMs)
      throw new Failure(
        `another run still holds ${file} after ${WAIT_AT_MOST_MS / 60_000} minutes: end it, or delete that file`,
      );
    await sleep(RETRY_EVERY_MS);
  }
}

async function take(file, mine) {
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, mine);
  try {
    // Creates the lock as a hard link, which appears together with its content. A file created in place would first be
    // visible while empty.
    await link(draft, file);
    return true;
  } catch (error) {
    if (error.code !== "EEXIST") throw new Failure(`cannot lock ${file}: ${error.message}`);
    await dropIfStale(file, draft);
    return false;
  } finally {
    await rm(draft, { force: true });
  }
}

async function dropIfStale(file, draft) {
  const held = await readFile(file, "utf8").catch(() => undefined);
  if (held === undefined || (await isHeld(held))) return;
  const aside = `${draft}.stale`;
  await rename(file, aside).catch(() => {});
  // Puts back the lock of another process, which replaced the stale lock before the rename.
  const moved = await readFile(aside, "utf8").catch(() => undefined);
  if (moved !== undefined && moved !== held) await link(aside, file).catch(() => {});
  await rm(aside, { force: true });
}

async function isHeld(held) {
  const [pid, startTime = ""] = held.trim().split(" ");
  if (!/^\d+$/.test(pid ?? "")) return false;
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    return error.code === "EPERM";
  }
  // Process ids are reused, so the start time must match, too, where /proc shows it.
  return startTime === "" || ((await startTimeOf(pid)) ?? startTime) === startTime;
}

async function startTimeOf(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
}
