import { type BackoffLimits, backoffMs, type Logger, messageOf } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { BY_DIRECTOR } from "../../audit/asker.js";
import { attachedTo } from "../../instances/recorded-deployments.js";
import type { DirectorTablet } from "../../store/stored-schema.js";
import type { Tasks } from "../../tasks/tasks.js";

export interface AgentsBackOptions {
  readonly tablet: DirectorTablet;
  readonly tasks: Pick<Tasks, "start" | "whenEnded">;
  /** Returns false for a silent agent, which would not answer; its first beat reports that it is back. */
  readonly isResponsive: (agentId: string) => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A returned agent that must get its disks; a later return replaces it. */
interface Due {
  attempts: number;
  /** On the monotonic clock; Infinity while a task is at it. */
  atMs: number;
}

/** They are told together: a rack that has its power back is one task. */
const GATHER_MS = 1_000;
const AGENTS_PER_TASK = 500;
const BACKOFF: BackoffLimits = { minDelayMs: 5_000, maxDelayMs: 300_000 };
/** Only the director that leads tries: there is nobody to keep apart from. */
const WITHOUT_JITTER = 1;

/** Begins tasks that tell agents that may have been restarted of their disks, for each until one has done so. */
export class AgentsBack {
  readonly #options: AgentsBackOptions;
  readonly #due = new Map<string, Due>();
  readonly #telling = new Set<Promise<void>>();
  readonly #closed = new AbortController();
  #working = Promise.resolve();
  #wake = () => {};

  constructor(options: AgentsBackOptions) {
    this.#options = options;
  }

  start(): void {
    this.#working = this.#run();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#wake();
    await this.#working;
    await Promise.all(this.#telling);
  }

  note(agentId: string): void {
    this.#due.set(agentId, { attempts: 0, atMs: this.#options.clock.monotonicMs() + GATHER_MS });
    this.#wake();
  }

  /** It has not been told yet. */
  has(agentId: string): boolean {
    return this.#due.has(agentId);
  }

  forget(agentId: string): void {
    this.#due.delete(agentId);
  }

  async #run(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      await this.#someAreDue();
      if (signal.aborted) return;
      const telling = this.#tellNext();
      this.#telling.add(telling);
      void telling.finally(() => this.#telling.delete(telling));
    }
  }

  async #someAreDue(): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      const { signal } = this.#closed;
      if (signal.aborted) return;
      const atMs = Math.min(...[...this.#due.values()].map((due) => due.atMs));
      const waitMs = atMs - clock.monotonicMs();
      if (waitMs <= 0) return;
      await clock.sleep(Math.min(waitMs, BACKOFF.maxDelayMs), woken.signal).catch(() => {});
    }
  }

  async #tellNext(): Promise<void> {
    const { clock, log, isResponsive } = this.#options;
    const nowMs = clock.monotonicMs();
    const next = [...this.#due].filter(([, { atMs }]) => atMs <= nowMs).slice(0, AGENTS_PER_TASK);
    for (const [, due] of next) due.atMs = Number.POSITIVE_INFINITY;
    const wereTold = await this.#tell(next.map(([agentId]) => agentId).filter(isResponsive)).catch((error: unknown) => {
      if (!this.#closed.signal.aborted)
        log.warn({ error: messageOf(error) }, "cannot tell agents of their disks; tried again later");
      return false;
    });
    for (const [agentId, due] of next) {
      // It is back once more since.
      if (this.#due.get(agentId) !== due) continue;
      if (wereTold && isResponsive(agentId)) this.#due.delete(agentId);
      else due.atMs = clock.monotonicMs() + backoffMs(due.attempts++, BACKOFF, WITHOUT_JITTER);
    }
    this.#wake();
  }

  /** Resolves with true when all have their disks now, or an operator did not want them to be told. */
  async #tell(all: readonly string[]): Promise<boolean> {
    const { tablet, tasks } = this.#options;
    const agentIds = await tablet.read((tables) =>
      all.filter((agentId) => attachedTo(tables, agentId).disks.length > 0),
    );
    if (agentIds.length === 0) return true;
    const { taskId } = await tasks.start(BY_DIRECTOR, {
      job: { type: "tell_agents", agentIds },
      queue: "dynamic_disks",
      description: `tell ${agentIds.length} agents that may have been restarted of their disks`,
      deployment: "",
    });
    const { signal } = this.#closed;
    const { state } = await tasks.whenEnded(taskId, { deadlineAtMs: Number.POSITIVE_INFINITY, signal });
    return state === "done" || state === "cancelled";
  }
}
