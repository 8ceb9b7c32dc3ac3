import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { closeSync, constants, mkdirSync, openSync, rmSync, symlinkSync, truncateSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DEVICE_BYTES, noise } from "@diskmesh/disk-agent/testing";
import { messageOf } from "@diskmesh/domain";
import type { LifeOrder, SessionOrder } from "./between-life.js";
import { alignedBlocks, BLOCK_BYTES, readDirect } from "./checked-writer.js";
import { command, makeFileSystem } from "./device-mapper.js";

/** Drive that outlives the machine, behind the two that fail. */
const LASTING = "/dev/vdc";
const FOLDER = "/lasting";
const DRIVES = { a: 1, b: 1, shared: 2 };

/** A machine as a host with drives, and with one life of its agent at a time. */
export class HostMachine {
  #life: ChildProcess | undefined;
  #lines: AsyncIterator<string> | undefined;

  /**
   * Sets up the drives of a host, and its end of the cable, after a start of the machine. Returns the folder. The drives are
   * loop devices on a file system, so that bytes that no flush has brought to the disk end with the machine.
   */
  async setUp(address: string): Promise<string> {
    await command("ip", "address", "add", `${address}/24`, "dev", "eth0");
    await command("ip", "link", "set", "eth0", "up");
    mkdirSync(FOLDER);
    const mount = () => command("mount", "-t", "ext4", LASTING, FOLDER);
    await mount().catch(async () => {
      await makeFileSystem("ext4", LASTING);
      await mount();
      for (const [name, devices] of Object.entries(DRIVES)) {
        closeSync(openSync(join(FOLDER, `${name}.img`), "w"));
        truncateSync(join(FOLDER, `${name}.img`), devices * DEVICE_BYTES);
      }
      await command("sync");
    });
    mkdirSync(join(FOLDER, "exports"), { recursive: true });
    for (const name of Object.keys(DRIVES)) {
      rmSync(join(FOLDER, name), { force: true });
      symlinkSync(await command("losetup", "--find", "--show", join(FOLDER, `${name}.img`)), join(FOLDER, name));
    }
    return FOLDER;
  }

  run(program: string, ...args: string[]): Promise<string> {
    return command(program, ...args);
  }

  /** Starts a life, and resolves to its first line; undefined when it was killed before. 0 kills it never. */
  async begin(order: LifeOrder, killAfterMs = 0): Promise<string | undefined> {
    await this.kill();
    const program = [...process.execArgv, process.argv[1] ?? "", "host", "", JSON.stringify(order)];
    const life = spawn(process.execPath, program, { stdio: ["pipe", "pipe", "inherit"] });
    life.stdin.on("error", () => undefined);
    this.#life = life;
    this.#lines = createInterface({ input: life.stdout })[Symbol.asyncIterator]();
    if (killAfterMs > 0) setTimeout(() => life.kill("SIGKILL"), killAfterMs);
    return (await this.#lines.next()).value;
  }

  async kill(): Promise<void> {
    const life = this.#life;
    if (life === undefined || life.exitCode !== null || life.signalCode !== null) return;
    const ended = once(life, "exit");
    life.kill("SIGKILL");
    await ended;
  }

  async signal(signal: "SIGSTOP" | "SIGCONT"): Promise<void> {
    this.#life?.kill(signal);
  }

  /** Has the life's agent execute an order, and resolves to the path of the disk after `serve`. */
  async order(order: SessionOrder): Promise<string> {
    this.#life?.stdin?.write(`${JSON.stringify(order)}\n`);
    const { value } = (await this.#lines?.next()) ?? {};
    const { path = "", error } = value === undefined ? { error: "the life has ended" } : JSON.parse(value);
    if (error !== undefined) throw new Error(`${order.verb} of session ${order.sessionNumber}: ${error}`);
    return path;
  }

  /** Returns the first blocks of a drive, in base64. */
  async blocks(name: string, count: number): Promise<string> {
    return (await readDirect(join(FOLDER, name), count)).toString("base64");
  }

  /** Overwrites the device at `path`, and returns the digest of its bytes. */
  async fill(path: string, sizeBytes: number): Promise<string> {
    const data = noise(sizeBytes);
    const [block] = alignedBlocks(1);
    if (block === undefined) throw new Error("no block");
    await using file = await open(path, constants.O_RDWR | constants.O_DIRECT);
    for (let at = 0; at < sizeBytes; at += BLOCK_BYTES) {
      data.copy(block, 0, at, at + BLOCK_BYTES);
      await file.write(block, 0, BLOCK_BYTES, at);
    }
    await file.datasync();
    return digestOf(data);
  }

  /** Returns the digest of the bytes of the devices a and d on their drives. */
  async digest(): Promise<string> {
    const blocks = DEVICE_BYTES / BLOCK_BYTES;
    const shared = await readDirect(join(FOLDER, "shared"), 2 * blocks);
    return digestOf(Buffer.concat([await readDirect(join(FOLDER, "a"), blocks), shared.subarray(DEVICE_BYTES)]));
  }
}

function digestOf(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

interface Call {
  readonly call: string;
  readonly args: readonly unknown[];
}
type Answer = { readonly value?: unknown } | { readonly error: string };

/** This machine. */
export const here = new HostMachine();

export async function answerCall({ call, args }: Partial<Call>): Promise<Answer> {
  try {
    const method = here[call as keyof HostMachine] as (...of: unknown[]) => Promise<unknown>;
    return { value: await method.apply(here, [...(args ?? [])]) };
  } catch (error) {
    return { error: messageOf(error) };
  }
}

let carry: (call: Call) => Promise<Answer> = async () => ({ error: "there is no other machine" });
let last: Promise<unknown> = Promise.resolve();

/** Sets the way to the other machine, which takes one call at a time. */
export function callThrough(way: typeof carry): void {
  carry = way;
}

interface Power {
  /** Ends the machine as a power cut does. */
  cutPower(): Promise<void>;
  boot(): Promise<void>;
}

/** The machine at the other end of the cable, with its power switch. */
export const there = new Proxy({} as Pick<HostMachine, keyof HostMachine> & Power, {
  get:
    (_, call: string) =>
    (...args: unknown[]) => {
      const answer = last.then(() => carry({ call, args }));
      last = answer.catch(() => undefined);
      return answer.then((came) => {
        if ("error" in came) throw new Error(`${call} on the other machine: ${came.error}`);
        return came.value;
      });
    },
});
