import { spawn } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "@diskmesh/testkit";

/** A pass without an end after this time in ms hangs. */
const PASS_TIMEOUT_MS = 120_000;
const RETRY_MS = 200;
const PATIENCE = { timeoutMs: 120_000, everyMs: RETRY_MS };
/**
 * Sizes in bytes of fio's check sums, one after the other. fio takes a block of an earlier pass for one of its own when
 * both have check sums of the same size.
 */
const INTERVALS_BYTES = [4_096, 2_048, 1_024, 512];
/**
 * Concurrent writers, each with a part of the disk and one request at a time. fio tells of each how many of its writes were
 * acknowledged; of a writer with several requests it assumes that none is answered much later than others.
 */
const WRITERS = 8;
const WRITES_PER_SECOND_OF_WRITER = 250;
/** Options that read what an earlier run has written. */
const CHECK = ["--verify_only", "--verify_state_load=1", "--verify_state_save=0"];

interface FioUserOptions {
  /** Folder of fio's files. */
  readonly folder: string;
  readonly sizeBytes: number;
  /** Returns the path at which the disk is served now. */
  readonly path: () => Promise<string>;
}

interface Ended {
  /** Exit code; undefined when fio hung and was killed. */
  readonly code: number | null | undefined;
  readonly output: string;
}

/** I/O that ended with an error. */
export interface EndedPass {
  readonly atMs: number;
  readonly output: string;
}

/**
 * A program that has a disk in use: fio, pass after pass. Each pass writes every block once and reads all of them back. A
 * pass whose I/O ends is followed by one that reads what it had acknowledged.
 */
export class FioUser {
  /** Whole passes, each of which has read back all that it wrote. */
  passes = 0;
  /** Reads that did not find the last acknowledged write. */
  readonly lost: string[] = [];
  readonly hangs: string[] = [];
  readonly ended: EndedPass[] = [];
  readonly #options: FioUserOptions;
  #isOver = false;
  #number = 0;
  readonly #running: Promise<void>;

  constructor(options: FioUserOptions) {
    this.#options = options;
    this.#running = this.#run();
    this.#running.catch(() => undefined);
  }

  /** Waits for a whole pass that begins from now on. */
  async more(): Promise<void> {
    const before = this.passes;
    // The running pass may have read a block before now.
    await eventually(() => {
      if (this.passes <= before + 1 && this.isRight) throw new Error(`fio ended no pass: ${this.passes}`);
    }, PATIENCE);
  }

  get isRight(): boolean {
    return this.lost.length === 0 && this.hangs.length === 0;
  }

  /** Waits for the end of the present pass. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isOver && this.isRight) {
      this.#number += 1;
      const ended = await this.#fio([]);
      if (ended === undefined) continue;
      if (ended.code === 0) this.passes += 1;
      else if (this.#isIoError(ended) && this.#isNoted()) await this.#check();
    }
  }

  /** Reads what the pass had acknowledged, as often as the reads end with an error. */
  async #check(): Promise<void> {
    const untilMs = performance.now() + PASS_TIMEOUT_MS;
    while (this.isRight) {
      if (performance.now() > untilMs) this.hangs.push("the disk is not served again");
      const ended = await this.#fio(CHECK);
      if (ended?.code === 0) return;
      if (ended !== undefined) this.#isIoError(ended);
    }
  }

  /** Notes why fio has failed; returns whether I/O ended with an error. */
  #isIoError({ code, output }: Ended): boolean {
    const text = output.trim().slice(0, 2_000);
    if (code === undefined) this.hangs.push(text);
    else if (/verify: bad|verify failed/.test(output)) this.lost.push(text);
    else {
      this.ended.push({ atMs: performance.now(), output: text });
      return true;
    }
    return false;
  }

  /** Returns whether fio has noted what each writer of the pass has written. */
  #isNoted(): boolean {
    const writers = Array.from({ length: WRITERS }, (_, writer) => writer);
    const name = (writer: number) => `local-pass-${this.#number}-${writer}-verify.state`;
    return writers.every((writer) => existsSync(join(this.#options.folder, name(writer))));
  }

  /** Runs fio on the disk. Returns undefined when the disk could not be opened. */
  async #fio(options: readonly string[]): Promise<Ended | undefined> {
    const { folder, sizeBytes, path } = this.#options;
    const place = await eventually(path, PATIENCE);
    const isDevice = statSync(place, { throwIfNoEntry: false })?.isBlockDevice() === true;
    const where = isDevice
      ? ["--ioengine=libaio", "--direct=1", `--filename=${place}`]
      : ["--ioengine=nbd", `--uri=nbd+unix:///?socket=${place}`];
    const load = ["--rw=randwrite", "--bs=4k", "--iodepth=1", `--numjobs=${WRITERS}`, "--fsync=8"];
    const interval = INTERVALS_BYTES[this.#number % INTERVALS_BYTES.length];
    const verify = ["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", `--verify_interval=${interval}`];
    const ended = await run(folder, [
      "--thread",
      // Where the device is gone, fio would write a file of its name.
      "--allow_file_create=0",
      `--name=pass-${this.#number}`,
      "--output-format=json",
      `--randseed=${this.#number}`,
      `--rate_iops=${WRITES_PER_SECOND_OF_WRITER}`,
      `--size=${sizeBytes / WRITERS}`,
      `--offset_increment=${sizeBytes / WRITERS}`,
      ...where,
      ...load,
      ...verify,
      ...options,
    ]);
    const isUnserved = /nbd_connect|No such (file|device)|engine nbd init failed/.test(ended.output);
    if (!isUnserved || (options !== CHECK && this.#isNoted())) return ended;
    await sleep(RETRY_MS);
    return undefined;
  }
}

async function run(folder: string, args: readonly string[]): Promise<Ended> {
  const child = spawn("fio", args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const ended = new Promise<number | null>((resolve) => {
    child.once("close", resolve);
    child.once("error", () => resolve(null));
  });
  // The end of a process whose I/O hangs comes with the end of its I/O.
  const hung = sleep(PASS_TIMEOUT_MS, undefined, { ref: false });
  const code = await Promise.race([ended, hung]);
  if (code === undefined) child.kill("SIGKILL");
  return { code, output: `${output}${out.slice(0, out.indexOf("{"))}` };
}
