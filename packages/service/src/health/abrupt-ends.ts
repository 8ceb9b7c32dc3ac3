import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { type Clock, isJsonObject, type Logger } from "@diskmesh/domain";

/** Time in ms after which an abrupt end no longer counts. */
const WINDOW_MS = 600_000;
/** Abrupt ends within the window from which somebody must look: an operator may kill a process once, or twice. */
const MANY = 3;

/**
 * Notices that a process is killed again and again, which no life of it sees: the file has a mark while the process runs,
 * and a life that finds it knows that the former one was not stopped. The file's folder has one process at a time.
 */
export class AbruptEnds {
  readonly #stop = new AbortController();

  private constructor(
    private readonly options: { readonly file: string; readonly clock: Clock; readonly log: Logger },
    /** Wall clock times of the starts that found the mark. */
    private atMs: readonly number[],
  ) {}

  /** Counts the former life's end, and marks that this one runs. */
  static async open(options: AbruptEnds["options"]): Promise<AbruptEnds> {
    const { file, clock } = options;
    const { isRunning, atMs } = await readEnds(file);
    const nowMs = clock.nowMs();
    const ends = new AbruptEnds(
      options,
      [...atMs, ...(isRunning ? [nowMs] : [])].filter((each) => counts(each, nowMs)),
    );
    await ends.#write(true);
    void ends.#watch();
    return ends;
  }

  /** Takes the mark away, because the process stops. */
  async close(): Promise<void> {
    this.#stop.abort();
    if (this.atMs.length > 0) await this.#write(false);
    else await rm(this.options.file, { force: true }).catch(() => undefined);
  }

  async #watch(): Promise<void> {
    const { clock, log } = this.options;
    const { signal } = this.#stop;
    const nowMs = clock.nowMs();
    if (this.atMs.length < MANY) return;
    const text = `it was started ${this.atMs.length} times within ${WINDOW_MS / 60_000} min after it had been killed or had crashed: the last line of its former log, or the kernel's log ("Out of memory"), says why`;
    log.error({ alert: "abrupt_ends", ends: this.atMs.length }, text);
    const [oldestMs = nowMs] = this.atMs.slice(-MANY);
    await clock.sleep(oldestMs + WINDOW_MS - nowMs, signal).catch(() => undefined);
    if (!signal.aborted) log.info({ alertEnded: "abrupt_ends" }, "process runs on");
  }

  /** Writes nothing durably, because a machine that loses power is no killed process. A full folder keeps no marks. */
  async #write(isRunning: boolean): Promise<void> {
    const { file } = this.options;
    try {
      await writeFile(`${file}.new`, JSON.stringify({ isRunning, atMs: this.atMs }), { mode: 0o600 });
      await rename(`${file}.new`, file);
    } catch {}
  }
}

function counts(atMs: number, nowMs: number): boolean {
  return atMs > nowMs - WINDOW_MS && atMs <= nowMs;
}

async function readEnds(file: string): Promise<{ readonly isRunning: boolean; readonly atMs: readonly number[] }> {
  try {
    const found: unknown = JSON.parse(await readFile(file, "utf8"));
    if (!isJsonObject(found)) return { isRunning: false, atMs: [] };
    const { isRunning, atMs } = found;
    const times = Array.isArray(atMs) ? atMs.filter((each): each is number => typeof each === "number") : [];
    return { isRunning: isRunning === true, atMs: times.slice(-MANY) };
  } catch {
    return { isRunning: false, atMs: [] };
  }
}
