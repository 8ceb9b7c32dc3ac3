import { type BackoffLimits, backoffMs, countText, type Logger, messageOf } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { BY_DIRECTOR } from "../../audit/asker.js";
import { attachedTo } from "../../instances/recorded-deployments.js";
import type { DirectorTablet } from "../../store/stored-schema.js";
import type { Tasks } from "../../tasks/tasks.js";

export interface AgentsBackOptions {
  readonly tablet: DirectorTablet;
  readonly tasks: Pick<Tasks, "start" | "whenEnded">;
  /** Returns false for a silent agent, which would not answer. Returns true again after the agent's next heartbeat. */
  readonly isResponsive: (agentId: string) => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/** An agent that may have restarted and must receive its disks. A later restart replaces the entry. */
interface Due {
  attempts: number;
  /** Monotonic time of the next attempt; Infinity while a task runs. */
  atMs: number;
}

/** Delay that collects agents into one task, for example after a power failure of a rack. */
const GATHER_MS = 1_000;
const AGENTS_PER_TASK = 500;
const BACKOFF: BackoffLimits = { minDelayMs: 5_000, maxDelayMs: 300_000 };
/** Only the leader retries, so jitter has no purpose. */
const WITHOUT_JITTER = 1;

/** Starts tasks that send possibly restarted agents their disks. Retries until each agent has its disks. */
export class AgentsBack {
  readonly #options: AgentsBackOptions;
  readonly #due = new Map<string, Due>();
  readonly #notifying = new Set<Promise<void>>();
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
    await Promise.all(this.#notifying);
  }

  note(agentId: string): void {
    this.#due.set(agentId, { attempts: 0, atMs: this.#options.clock.monotonicMs() + GATHER_MS });
    this.#wake();
  }

  /** Returns true while the agent has not received its disks. */
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
      const request = this.#notifyNext();
      this.#notifying.add(request);
      void request.finally(() => this.#notifying.delete(request));
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

  async #notifyNext(): Promise<void> {
    const { clock, log, isResponsive } = this.#options;
    const nowMs = clock.monotonicMs();
    const next = [...this.#due].filter(([, { atMs }]) => atMs <= nowMs).slice(0, AGENTS_PER_TASK);
    for (const [, due] of next) due.atMs = Number.POSITIVE_INFINITY;
    const wereNotified = await this.#notify(next.map(([agentId]) => agentId).filter(isResponsive)).catch(
      (error: unknown) => {
        if (!this.#closed.signal.aborted)
          log.warn({ error: messageOf(error) }, "disk list delivery to agents failed, retrying");
        return false;
      },
    );
    for (const [agentId, due] of next) {
      // The agent may have restarted again in the meantime, which replaced its entry.
      if (this.#due.get(agentId) !== due) continue;
      if (wereNotified && isResponsive(agentId)) this.#due.delete(agentId);
      else due.atMs = clock.monotonicMs() + backoffMs(due.attempts++, BACKOFF, WITHOUT_JITTER);
    }
    this.#wake();
  }

  /** Resolves with true when all agents have their disks or an operator cancelled the task. */
  async #notify(all: readonly string[]): Promise<boolean> {
    const { tablet, tasks } = this.#options;
    const agentIds = await tablet.read((tables) =>
      all.filter((agentId) => attachedTo(tables, agentId).disks.length > 0),
    );
    if (agentIds.length === 0) return true;
    const { taskId } = await tasks.start(BY_DIRECTOR, {
      job: { type: "tell_agents", agentIds },
      queue: "dynamic_disks",
      description: `tell ${countText(agentIds.length, "restarted agent")} of ${agentIds.length === 1 ? "its" : "their"} disks`,
      deployment: "",
    });
    const { signal } = this.#closed;
    const { state } = await tasks.whenEnded(taskId, { deadlineAtMs: Number.POSITIVE_INFINITY, signal });
    return state === "done" || state === "cancelled";
  }
}
