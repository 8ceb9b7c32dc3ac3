import { allEnded, histogramOf, observe } from "@diskmesh/metrics";
import type { Clock } from "@diskmesh/service";
import { type Follows, follow, Tally, Waits } from "@diskmesh/tablet";
import { schema } from "./store/schema.js";
import type { DirectorTablet } from "./store/stored-schema.js";
import { hasEnded, TASK_QUEUES, type Task } from "./store/task.js";
import { directorMetrics, LIVE_STATES, notePhase } from "./tasks/metrics.js";

type EndState = "done" | "error" | "cancelled" | "timeout";

/** Records each task's duration when the task ends. */
const ends: Follows<Task> = {
  changed: (_key, now, before) => {
    if (now?.endedAtMs == null || before === null || hasEnded(before)) return;
    const totalSeconds = (now.endedAtMs - now.createdAtMs) / 1_000;
    const labels = { queue: now.queue, state: now.state as EndState };
    histogramOf(directorMetrics.taskDuration).record(Math.max(0, totalSeconds), labels);
    if (now.type !== "provide_dynamic_disk") return;
    notePhase("total", now.endedAtMs - now.createdAtMs);
    if (now.startedAtMs !== null) notePhase("queue", now.startedAtMs - now.createdAtMs);
  },
};

/**
 * Starts counting tasks and pending work and exports the counts as metrics. Returns the function that stops it. Must be
 * called before the tablet's first transaction.
 */
export async function observeDirector(tablet: DirectorTablet, clock: Clock): Promise<() => void> {
  const tasks = new Tally<Task>((task) => (hasEnded(task) ? [] : [[`${task.queue} ${task.state}`, 1]]));
  const waits = TASK_QUEUES.map(
    (queue) => new Waits<Task>((task) => (hasEnded(task) || task.queue !== queue ? undefined : task.createdAtMs)),
  );
  const owed = new Tally<object>(() => [["all", 1]]);
  const orphans = new Tally<object>(() => [["all", 1]]);
  const end = await follow(tablet, schema, {
    tasks: [tasks, ends, ...waits],
    owedRemovals: [owed],
    possibleOrphans: [orphans],
  });
  return allEnded([
    end,
    observe(directorMetrics.tasks, (say) => {
      for (const queue of TASK_QUEUES)
        for (const state of LIVE_STATES) say(tasks.get(`${queue} ${state}`), { queue, state });
    }),
    observe(directorMetrics.oldestTask, (say) => {
      TASK_QUEUES.forEach((queue, index) => {
        say(Math.max(0, waits[index]?.oldestMs(clock.nowMs()) ?? 0) / 1_000, { queue });
      });
    }),
    observe(directorMetrics.owedRemovals, (say) => say(owed.get("all"))),
    observe(directorMetrics.possibleOrphans, (say) => say(orphans.get("all"))),
  ]);
}

/** Exports lock metrics. Returns the function that stops it. */
export function observeLocks(list: () => readonly { readonly waitingTaskIds: readonly number[] }[]): () => void {
  return allEnded([
    observe(directorMetrics.locks, (say) => say(list().length)),
    observe(directorMetrics.lockWaiters, (say) =>
      say(list().reduce((sum, { waitingTaskIds }) => sum + waitingTaskIds.length, 0)),
    ),
  ]);
}
