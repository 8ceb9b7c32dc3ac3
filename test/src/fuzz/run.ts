import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { repositoryFolder } from "../repository-folder.js";
import type { Waited } from "./bystanders.js";
import { type FuzzedMesh, fuzzedMesh } from "./fuzzed-mesh.js";
import { growthOf } from "./growth.js";
import { type InputRange, Lane } from "./lane.js";
import { keptSeedsOf } from "./seeds.js";
import { makeSurface } from "./surfaces.js";
import { lastWords, type Usage } from "./watched-processes.js";

export interface FuzzOptions {
  readonly seed: number;
  /** Duration of the run in minutes. The run ends after this time or this number of inputs, whichever comes first. */
  readonly minutes?: number;
  readonly inputs?: number;
  /** Names of the surfaces. */
  readonly surfaces: readonly string[];
  /**
   * Range of inputs for each surface; absent for all inputs. `first` defaults to the first kept input (see seeds.ts).
   */
  readonly at?: { readonly first?: number; readonly last: number };
  /** Called with progress lines. */
  readonly report: (line: string) => void;
}

/** A fault, and the inputs that may have caused it. */
export interface FuzzFind {
  readonly what: string;
  /** Inputs that may have caused it. */
  readonly suspects: readonly { readonly surface: string; readonly index: number }[];
}

export interface FuzzResult {
  readonly seed: number;
  readonly tookMs: number;
  readonly lanes: readonly {
    readonly name: string;
    readonly sent: number;
    readonly counts: ReadonlyMap<string, number>;
  }[];
  readonly waits: readonly Waited[];
  /** Usage after the first tenth and at the end, by process; empty for runs that are too short. */
  readonly usages: readonly { readonly name: string; readonly first: Usage; readonly end: Usage }[];
  /** True when usage was compared; the first tenth must have enough inputs. */
  readonly usagesJudged: boolean;
  /** Number of disks that were provided, written, read and deleted during the run. */
  readonly provided: number;
  readonly finds: readonly FuzzFind[];
}

const CHECK_EVERY_INPUTS = 10_000;
const LOOK_MS = 200;
const PROGRESS_EVERY_MS = 30_000;
/** Pause in ms in which calls end, idle connections close, and freed memory returns to the system. */
const SETTLE_MS = 10_000;
/** Number of usage samples in a run. Lanes pause during a sample. */
const LOOKS = 10;
/** Minimum duration in ms of a run with usage samples. */
const LOOKED_AT_FROM_MS = 5 * 60_000;
const LOOKED_AT_FROM_INPUTS = 50_000;
/**
 * Minimum number of inputs at the first sample. With fewer, bounded state such as ended tasks still grows to its limit.
 */
const JUDGED_FROM_INPUTS = 20_000;
/** Minimum number of inputs before the heap is compared. Earlier growth is mostly newly compiled code. */
const HEAP_JUDGED_FROM_INPUTS = 10_000;
const MEMORY_GROWTH_MAX = 1.2;
/** Maximum difference in file descriptors: connections that are open at only one of the samples. */
const DESCRIPTORS_SLACK = 12;

/** Starts a mesh, and fuzzes until the time is over or a fault is found. */
export async function runFuzz(options: FuzzOptions): Promise<FuzzResult> {
  await using fuzzed = await fuzzedMesh(options.report);
  // Awaits the run here, so that the mesh is disposed of only afterwards.
  return await fuzz(options, fuzzed);
}

/** Fuzzes a running mesh. */
export function fuzz(options: FuzzOptions, fuzzed: FuzzedMesh): Promise<FuzzResult> {
  return new FuzzRun(options, fuzzed).run();
}

class FuzzRun {
  readonly #startedMs = performance.now();
  readonly #finds: FuzzFind[] = [];
  #lanes: Lane[] = [];
  #provided = 0;
  #checking: Promise<void> | undefined;
  #checkedInputs = 0;
  readonly #looks: { readonly inputs: number; readonly usages: ReadonlyMap<string, Usage> }[] = [];

  constructor(
    private readonly options: FuzzOptions,
    private readonly fuzzed: FuzzedMesh,
  ) {}

  async run(): Promise<FuzzResult> {
    this.#lanes = await Promise.all(this.options.surfaces.map((name) => this.#lane(name)));
    this.fuzzed.onLate(({ name, waitedMs, netMs, error }) =>
      this.#found(
        `${name} kept a client waiting for ${Math.round(waitedMs)} ms, ${Math.round(netMs)} ms longer than an idle server did (${error || "and then answered"})`,
      ),
    );
    const ended = Promise.all(
      this.#lanes.map((lane) => lane.run(({ index, what }) => this.#found(what, [{ surface: lane.name, index }]))),
    );
    let over = false;
    void ended.then(() => {
      over = true;
    });
    await this.#watch(() => over);
    for (const lane of this.#lanes) lane.stop();
    await ended;
    return this.#finish();
  }

  async #lane(name: string): Promise<Lane> {
    const { seed, at } = this.options;
    const range: InputRange = { seed, first: -keptSeedsOf(name).length, ...at };
    return new Lane(await makeSurface(name, this.fuzzed), range);
  }

  get #sent(): number {
    return this.#lanes.reduce((sum, { sent }) => sum + sent, 0);
  }

  /** Elapsed share of the run, from 0 to 1. */
  get #share(): number {
    const { minutes, inputs } = this.options;
    const byTime = minutes === undefined ? 0 : (performance.now() - this.#startedMs) / (minutes * 60_000);
    return Math.max(byTime, inputs === undefined ? 0 : this.#sent / inputs);
  }

  async #watch(isOver: () => boolean): Promise<void> {
    let toldMs = performance.now();
    while (!isOver() && this.#share < 1 && this.#finds.length === 0) {
      await sleep(LOOK_MS);
      this.#lookAtProcesses();
      this.#checkMesh();
      if (this.#isLookedAt && this.#share >= (this.#looks.length + 1) / LOOKS) await this.#look();
      if (performance.now() - toldMs < PROGRESS_EVERY_MS) continue;
      toldMs = performance.now();
      this.options.report(this.#progress());
    }
    await this.#checking;
    this.#lookAtProcesses();
  }

  #lookAtProcesses(): void {
    for (const [name, process] of this.fuzzed.target.mesh.processes) {
      if (process.exit !== undefined) {
        const { code, signal } = process.exit;
        this.#found(`${name} ended with ${signal ?? `exit code ${code}`}:\n${lastWords(process)}`);
      } else if (/"level":"error"/.test(process.logs)) this.#found(`${name} logged an error:\n${lastWords(process)}`);
    }
  }

  #checkMesh(): void {
    if (this.#checking !== undefined) return;
    if (this.#sent - this.#checkedInputs < CHECK_EVERY_INPUTS) return;
    this.#checkedInputs = this.#sent;
    this.#checking = this.#provide().finally(() => {
      this.#checking = undefined;
    });
  }

  async #provide(): Promise<void> {
    try {
      await this.fuzzed.check.provide();
      this.#provided++;
    } catch (error) {
      this.#found(`the mesh did not provide a disk: ${messageOf(error)}`);
    }
  }

  get #isLookedAt(): boolean {
    const { minutes, inputs = 0 } = this.options;
    return (minutes ?? 0) * 60_000 >= LOOKED_AT_FROM_MS || inputs >= LOOKED_AT_FROM_INPUTS;
  }

  /** Pauses all lanes, waits for work in progress, and samples the usage of all processes. */
  async #look(): Promise<void> {
    for (const lane of this.#lanes) lane.paused = true;
    await sleep(SETTLE_MS);
    this.#looks.push({ inputs: this.#sent, usages: await this.fuzzed.usages() });
    for (const lane of this.#lanes) lane.paused = false;
  }

  async #finish(): Promise<FuzzResult> {
    const tookMs = performance.now() - this.#startedMs;
    if (this.#finds.length === 0) await this.#provide();
    // Takes no sample after a find, because the run stopped in the middle of an input.
    if (this.#finds.length === 0 && this.#looks.length > 0) await this.#look();
    const compared = this.#finds.length === 0 ? this.#compareUsages() : [];
    return {
      seed: this.options.seed,
      tookMs,
      lanes: this.#lanes,
      waits: this.fuzzed.waits,
      usages: compared,
      usagesJudged: this.#inputsAtFirst >= JUDGED_FROM_INPUTS,
      provided: this.#provided,
      finds: this.#finds,
    };
  }

  get #inputsAtFirst(): number {
    return this.#looks[0]?.inputs ?? 0;
  }

  #compareUsages(): FuzzResult["usages"] {
    const [first, last] = [this.#looks[0]?.usages, this.#looks.at(-1)?.usages];
    if (first === undefined || last === undefined) return [];
    return [...first].flatMap(([name, before]) => {
      const end = last.get(name);
      if (end === undefined) return [];
      this.#judge(name, before, end);
      return [{ name, first: before, end }];
    });
  }

  #judge(name: string, first: Usage, end: Usage): void {
    if (this.#inputsAtFirst < HEAP_JUDGED_FROM_INPUTS) return;
    const samples = this.#looks.flatMap(({ inputs, usages }) => {
      const usage = usages.get(name);
      return usage === undefined ? [] : [{ inputs, usage }];
    });
    const more = growthOf(samples);
    if (more !== undefined) this.#found(`${name} holds ${more}`, []);
    if (end.descriptors > first.descriptors + DESCRIPTORS_SLACK)
      this.#found(
        `${name} has ${end.descriptors} descriptors, after ${first.descriptors} after a tenth of the inputs`,
        [],
      );
    const growth = end.residentBytes / first.residentBytes;
    if (this.#inputsAtFirst >= JUDGED_FROM_INPUTS && growth > MEMORY_GROWTH_MAX)
      this.#found(`${name} has ${growth.toFixed(2)} times the memory it had after a tenth of the inputs`, []);
  }

  #found(what: string, suspects = this.#suspects()): void {
    if (this.#finds.some((find) => find.what === what)) return;
    this.#finds.push({ what, suspects });
    this.#write(suspects);
  }

  /** Returns the last inputs that each surface sent. */
  #suspects(): { surface: string; index: number }[] {
    return this.#lanes.flatMap((lane) => lane.suspects().map((index) => ({ surface: lane.name, index })));
  }

  #write(suspects: FuzzFind["suspects"]): void {
    const folder = findsFolder(this.options.seed);
    mkdirSync(folder, { recursive: true });
    for (const { surface, index } of suspects) {
      const input = this.#lanes.find(({ name }) => name === surface)?.inputAt(index);
      if (input !== undefined) writeFileSync(join(folder, `${surface}-${index}.hex`), `${input.toString("hex")}\n`);
    }
  }

  #progress(): string {
    const seconds = Math.round((performance.now() - this.#startedMs) / 1_000);
    const lanes = this.#lanes.map(({ name, sent }) => `${name} ${sent}`).join(", ");
    const worst = this.fuzzed.waits.reduce((most, { worstNetMs }) => Math.max(most, worstNetMs), 0);
    return `${seconds} s: ${this.#sent} inputs (${lanes}); ${this.#provided} disks provided; longest wait ${Math.round(worst)} ms`;
  }
}

/** Returns the folder for the inputs of finds, one file in hex for each. */
export function findsFolder(seed: number): string {
  return join(repositoryFolder, ".cache/fuzz", `seed-${seed}`);
}
