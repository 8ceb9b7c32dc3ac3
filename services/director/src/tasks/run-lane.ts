import type { LockName } from "../locks/locks.js";
import type { DirectorTables } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { TaskRun } from "./task-run.js";

/**
 * Runs planned actions in a lane, a concurrent part of the task, until no action is left. Plans again before each
 * action, so the progress of a former director does not matter. Keeps locks that the next action also needs.
 */
export function runLane<Next extends { readonly locks: readonly LockName[] }>(
  { tablet }: { readonly tablet: Pick<DirectorTablet, "read"> },
  run: TaskRun,
  plan: (tables: DirectorTables) => Next | undefined,
  work: (lane: TaskRun, next: Next) => Promise<void>,
): Promise<void> {
  return run.inLane(async (lane, locks) => {
    for (;;) {
      lane.checkpoint();
      const next = await tablet.read(plan);
      if (next === undefined) return;
      // The state may have changed before the locks were acquired, so the plan is repeated.
      if ((await locks.settle(next.locks, lane.stopped)) === "acquired") continue;
      await work(lane, next);
    }
  });
}
