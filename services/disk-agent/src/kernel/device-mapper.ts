import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import {
  type CutOptions,
  createdNumber,
  cutSteps,
  eventsOf,
  holdStep,
  INFO_COLUMNS,
  inOrderOfEnd,
  type MappedDevice,
  type MappedRole,
  nameOf,
  numbersBelow,
  parseMapped,
  parseUuid,
  pathOf,
  removeStep,
  settlingSteps,
  stepsTo,
  uuidOf,
  type WantedDevice,
} from "../model/mapped-devices.js";
import { runProgram } from "./loop.js";

const PROGRAM = "dmsetup";
/** Maximum time in ms of a call that waits for no drive. */
const CALL_TIMEOUT_MS = 30_000;
/** Looks at a device before its change counts as failed: what a former life has left needs two. */
const MAX_LOOKS = 4;
/** Lists of all devices before their failure counts: dmsetup fails when a device ends between its name and its table. */
const MAX_LISTS = 20;
/** Interval in ms of the tries to remove a device that somebody has open. */
const RETRY_MS = 50;
/** Maximum wait in ms for programs that only look at devices which are to end. */
const END_MS = 5_000;
/** Thousands of devices have some 200 bytes each. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

/** Runs dmsetup, and returns its output. Throws UnavailableError when it fails, or takes longer than `timeoutMs`; 0 is no limit. */
export type Dmsetup = (args: readonly string[], timeoutMs?: number) => Promise<string>;

/**
 * The agent's devices of device-mapper, made and changed by `dmsetup`. The kernel's tables are the only record of them.
 * Methods throw UnavailableError with what dmsetup says.
 */
export class DeviceMapper {
  readonly #owner: string;
  readonly #call: Dmsetup;

  /**
   * `baseFolder`, a real path, tells apart the agents of a machine. `whyNoMirror` is the reason why no part of a disk in use
   * moves; undefined when parts may.
   */
  constructor(
    baseFolder: string,
    call: Dmsetup = dmsetup,
    readonly whyNoMirror?: string,
  ) {
    this.#call = call;
    this.#owner = createHash("sha256").update(baseFolder).digest("hex").slice(0, 12);
  }

  /** Returns the agent's devices. */
  async list(): Promise<readonly MappedDevice[]> {
    return parseMapped(this.#owner, await this.#callForAll(INFO), await this.#callForAll(["table"]));
  }

  async #callForAll(args: readonly string[]): Promise<string> {
    for (let lists = 1; lists < MAX_LISTS; lists += 1) {
      const output = await unlessGone(this.#call(args));
      if (output !== undefined) return output;
    }
    return this.#call(args);
  }

  /** Returns whether the kernel has any of the agent's devices. Starts no program. */
  async hasAny(): Promise<boolean> {
    const names = (await readdir("/sys/block").catch((): string[] => [])).filter((name) => name.startsWith("dm-"));
    const uuids = await Promise.all(
      names.map((name) => readFile(`/sys/block/${name}/dm/uuid`, "utf8").catch(() => "")),
    );
    return uuids.some((uuid) => parseUuid(this.#owner, uuid.trim()) !== undefined);
  }

  /** Returns whether the device with this number is still the one of the role. Starts no program. */
  async isAt(role: MappedRole, number: string): Promise<boolean> {
    const uuid = await readFile(`/sys/dev/block/${number}/dm/uuid`, "utf8").catch(() => "");
    return uuid.trim() === uuidOf(this.#owner, role);
  }

  /** Returns the UUID of the device of the role. */
  uuidOf(role: MappedRole): string {
    return uuidOf(this.#owner, role);
  }

  /** Returns the device; undefined when the kernel does not have it. */
  async find(role: MappedRole): Promise<MappedDevice | undefined> {
    const name = nameOf(this.#owner, role);
    const info = await unlessGone(this.#call([...INFO, name]));
    const table = info && (await unlessGone(this.#call(["table", name])));
    return parseMapped(this.#owner, info ?? "", (table ?? "").replace(/^/gm, `${name}: `))[0];
  }

  /** Makes the device, or changes it to what it should be, and returns its number. */
  async ensure(wanted: WantedDevice): Promise<string> {
    for (let looks = 1; looks <= MAX_LOOKS; looks += 1) {
      const found = await this.find(wanted.role);
      const steps = stepsTo(this.#owner, found, wanted);
      if (found !== undefined && steps.length === 0) return found.number;
      let output = "";
      for (const step of steps) output = await this.#call(step);
      const number = found === undefined ? createdNumber(output) : undefined;
      if (number !== undefined) return number;
    }
    const name = nameOf(this.#owner, wanted.role);
    throw new UnavailableError(`${PROGRAM} reports success, but ${name} has another table after ${MAX_LOOKS} changes`);
  }

  /** Ends the changes of tables that a former life of the agent has begun. */
  async settle(): Promise<readonly MappedDevice[]> {
    for (const found of await this.list()) for (const step of settlingSteps(this.#owner, found)) await this.#call(step);
    return this.list();
  }

  /**
   * Takes a device off the agent's own devices below it. Resolves once no I/O of it is in flight there, and all writes that
   * it has acknowledged are on the drives, because a device without a table acknowledges every flush. All later I/O fails.
   * Waits for a drive that hangs. A device that does not exist has no I/O. Returns why a drive could not be flushed, after
   * which acknowledged writes may be lost; undefined when all were.
   */
  async cut(role: MappedRole, options: CutOptions = {}): Promise<string | undefined> {
    const found = await this.find(role);
    if (found === undefined) return undefined;
    const below = numbersBelow(found, options.kept);
    let failure: string | undefined;
    // Without a timeout: a call that was ended would leave the device as it was.
    if (below.length > 0) {
      await unlessGone(this.#call(holdStep(this.#owner, role), 0));
      failure = await flushDrives(below.map(pathOf));
    }
    for (const step of cutSteps(this.#owner, found, options)) await unlessGone(this.#call(step, 0));
    return failure;
  }

  /** Returns what the kernel says of a device's copies, and the number of its events right before that. */
  async lookAtCopies(role: MappedRole): Promise<{ readonly status: string; readonly events: number }> {
    const status = await this.#call(["status", "-v", nameOf(this.#owner, role)]);
    return { status, events: eventsOf(status) };
  }

  /** Flushes the drives below a device. Returns why that failed; waits for a drive that hangs. */
  flush(number: string): Promise<string | undefined> {
    return flushDrives([pathOf(number)]);
  }

  /** Removes the device. Throws while somebody has it open, unless `isDeferred`: then it is removed with its last user. */
  async remove(role: MappedRole, options: { readonly isDeferred?: boolean } = {}): Promise<void> {
    await unlessGone(this.#call(removeStep(this.#owner, role, options)));
  }

  /**
   * Removes the device once nobody has it open any more, unless that is no longer due. Calls `onWait` once with the reason of
   * the second failure, because programs that look at a device close it soon.
   */
  async removeWhenFree(
    role: MappedRole,
    { onWait, isDue = () => true }: { onWait?: (reason: string) => void; isDue?: () => boolean } = {},
  ): Promise<void> {
    for (let tries = 1; isDue(); tries += 1)
      try {
        return await this.remove(role);
      } catch (error) {
        if (tries === 2) onWait?.(messageOf(error));
        // A device that others have for long is asked about less often.
        await sleep(RETRY_MS * Math.min(tries, 20));
      }
  }

  /**
   * Ends all devices of an agent that does not run. `onWiped` ends what else has them once they do no more I/O. Returns those
   * that programs of the host still have.
   */
  async endAll(onWiped: () => Promise<void> = async () => {}): Promise<readonly MappedDevice[]> {
    const { wipe, remove } = inOrderOfEnd(await this.settle());
    for (const role of wipe) await this.cut(role);
    await onWiped();
    const untilMs = performance.now() + END_MS;
    for (const role of remove)
      if (role.kind === "disk") await this.remove(role, { isDeferred: true });
      else await this.removeWhenFree(role, { isDue: () => performance.now() < untilMs });
    return this.list();
  }
}

/** Returns why this host cannot carry bytes in the kernel; undefined when it can. */
export async function whyNoKernel(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "the agent does not run as root";
  try {
    const targets = await dmsetup(["targets"]);
    if (!/^linear /m.test(targets)) return "device-mapper has no target linear: load the module dm-mod";
    await runProgram("losetup", ["--version"]);
  } catch (error) {
    return messageOf(error);
  }
  return undefined;
}

/** Returns why this host's kernel cannot move a part of a disk in use; undefined when it can. */
export async function whyNoMirror(): Promise<string | undefined> {
  try {
    if (/^mirror /m.test(await dmsetup(["targets"]))) return undefined;
    await runProgram("modprobe", ["dm-mirror"]);
    return undefined;
  } catch (error) {
    return `device-mapper has no target mirror: load the module dm-mirror (${messageOf(error)})`;
  }
}

/** Arguments of the list of all devices; the name of one may follow. */
const INFO = ["info", "--columns", "--noheadings", "--separator", " ", "--options", INFO_COLUMNS];
const NOT_THERE = /does not exist|not found|No such device/;

/** Resolves to undefined when the call failed because there is no such device. */
async function unlessGone(output: Promise<string>): Promise<string | undefined> {
  try {
    return await output;
  } catch (error) {
    if (NOT_THERE.test(messageOf(error))) return undefined;
    throw error;
  }
}

/**
 * Flushes the caches of the drives below block devices. Returns what a drive or `sync` says when that failed. Throws
 * UnavailableError when `sync` did not run to its end. Has no timeout, because a drive may hang.
 */
function flushDrives(paths: readonly string[]): Promise<string | undefined> {
  // In another process, because a flush of a drive that hangs would hold a thread of the agent.
  return new Promise((resolve, reject) => {
    execFile("sync", [...paths], (error, _stdout, stderr) => {
      if (error === null) resolve(undefined);
      else if (typeof error.code === "number") resolve(stderr.trim() || messageOf(error));
      else reject(new UnavailableError(`sync ${paths.join(" ")} failed: ${messageOf(error)}`, { cause: error }));
    });
  });
}

export function dmsetup(args: readonly string[], timeoutMs = CALL_TIMEOUT_MS): Promise<string> {
  // The agent uses the kernel's own device files. A dmsetup in a container would wait for ever for the host's udev.
  const all = [...args, "--noudevsync"];
  const options = { timeout: timeoutMs, killSignal: "SIGKILL", maxBuffer: MAX_OUTPUT_BYTES } as const;
  return new Promise((resolve, reject) => {
    execFile(PROGRAM, all, options, (error, stdout, stderr) => {
      if (error === null) return resolve(stdout);
      // It says on its standard output that a device does not exist.
      const said = `${stdout}\n${stderr}`.trim().replace(/\s*\n\s*/g, "; ");
      const reason = error.killed ? `it did not end within ${timeoutMs} ms` : said || messageOf(error);
      reject(new UnavailableError(`${PROGRAM} ${args.join(" ")} failed: ${reason}`, { cause: error }));
    });
  });
}
