import { type BackoffLimits, backoffMs, type Logger, messageOf } from "@diskmesh/domain";
import type { AgentClient } from "@diskmesh/mbus";
import type { Clock } from "@diskmesh/service";
import { BY_DIRECTOR } from "../audit/asker.js";
import { type OwedRemoval, owedRemovalKey } from "../store/owed-removal.js";
import { taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded } from "../store/task.js";
import { sideBySide } from "../tasks/run-all.js";
import type { Tasks } from "../tasks/tasks.js";
import { agentOfOwedRemoval } from "./owed-removal.js";

export interface OwedRemovalsOptions {
  readonly tablet: DirectorTablet;
  readonly agents: Pick<AgentClient, "call" | "onHeard" | "onConnected">;
  readonly tasks: Pick<Tasks, "start">;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Owing {
  /** CIDs of the disks, by key of the notification. */
  readonly diskCids: Map<string, string>;
  /** The latest task; 0 for none. */
  taskId: number;
  attempts: number;
  nextAtMs: number;
}

/** Delay between tasks for one agent that answers but fails the removal. */
const BACKOFF: BackoffLimits = { minDelayMs: 1_000, maxDelayMs: 300_000 };
const ASKED_AT_ONCE = 100;

/**
 * Starts a task to settle an agent's pending detach notifications when a message from the agent arrives. Messages are
 * lost while no director listens, and heartbeats are up to a minute apart. After a connect, all agents with pending
 * notifications are therefore pinged.
 */
export class OwedRemovals {
  readonly #options: OwedRemovalsOptions;
  readonly #owing = new Map<string, Owing>();
  #ends: (() => void)[] = [];

  constructor(options: OwedRemovalsOptions) {
    this.#options = options;
  }

  /** Starts the worker. Call only after the dispatchers refuse former directors. */
  async start(): Promise<void> {
    const { tablet, agents } = this.#options;
    const unwatch = tablet.watch((changes) => {
      for (const { table, key, document } of changes)
        if (table === "owedRemovals") this.#note(key, (document ?? undefined) as OwedRemoval | undefined);
    });
    this.#ends.push(unwatch);
    await tablet.read((tables) => {
      for (const owed of tables.owedRemovals.entries()) this.#note(owedRemovalKey(owed), owed);
    });
    this.#ends.push(agents.onHeard((agentId) => this.#heard(agentId)));
    this.#ends.push(agents.onConnected(() => void this.#ask()));
    void this.#ask();
  }

  close(): void {
    for (const end of this.#ends.splice(0)) end();
  }

  /** Pings all agents with pending detach notifications. An answer starts the task. */
  async #ask(): Promise<void> {
    const { agents } = this.#options;
    await sideBySide([...this.#owing.keys()], ASKED_AT_ONCE, async (agentId) => {
      await agents.call(agentId, "ping", []).catch(() => {});
    });
  }

  #note(key: string, owed: OwedRemoval | undefined): void {
    const agentId = agentOfOwedRemoval(key);
    const owing = this.#owing.get(agentId) ?? { diskCids: new Map(), taskId: 0, attempts: 0, nextAtMs: 0 };
    if (owed === undefined) owing.diskCids.delete(key);
    else owing.diskCids.set(key, owed.diskCid);
    if (owing.diskCids.size === 0) this.#owing.delete(agentId);
    else this.#owing.set(agentId, owing);
  }

  #heard(agentId: string): void {
    const { clock, log } = this.#options;
    const owing = this.#owing.get(agentId);
    if (owing === undefined || clock.monotonicMs() < owing.nextAtMs) return;
    owing.nextAtMs = clock.monotonicMs() + backoffMs(owing.attempts++, BACKOFF);
    this.#begin(agentId, owing).catch((error: unknown) =>
      log.warn(
        { agentId, diskCids: [...owing.diskCids.values()], error: messageOf(error) },
        "pending detach notification failed, retrying",
      ),
    );
  }

  async #begin(agentId: string, owing: Owing): Promise<void> {
    const { tablet, tasks } = this.#options;
    const last = await tablet.read((tables) => tables.tasks.get(taskKey(owing.taskId)));
    if (last !== undefined && !hasEnded(last)) return;
    const task = await tasks.start(BY_DIRECTOR, {
      job: { type: "settle_owed_removals", agentId },
      queue: "dynamic_disks",
      description: `have agent \`${agentId}\` forget disks that were detached while it was away`,
      deployment: (tables) => {
        const [owed] = tables.owedRemovals.by("byAgent", agentId);
        return tables.instances.get(owed?.instanceId ?? "")?.deployment ?? "";
      },
    });
    owing.taskId = task.taskId;
  }
}
