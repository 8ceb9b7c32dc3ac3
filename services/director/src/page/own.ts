import type { ListCpisResponse } from "@diskmesh/api/cpi";
import { messageOf } from "@diskmesh/domain";
import type { OrphanRow, TaskRow } from "@diskmesh/page/rows";
import type { Clock } from "@diskmesh/service";
import type { ProcessReport } from "@diskmesh/tablet-admin";
import type { AgentHealths } from "../agents/agent-healths.js";
import type { CallRecords } from "../cpi/call-records.js";
import type { LockKeeper } from "../locks/lock-keeper.js";
import { lockName } from "../locks/locks.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Task } from "../store/task.js";
import type { EndedTasks } from "../tasks/ended-tasks.js";
import { cpiRow, lockRow, orphanRow, taskRow } from "./own-rows.js";
import { ownSourceRow } from "./source-row.js";
import { keepVms, type VmsOptions } from "./vms.js";

interface DispatcherCpis {
  readonly name: string;
  readonly list: (signal: AbortSignal) => Promise<ListCpisResponse["cpis"]>;
}

export interface OwnOptions extends VmsOptions, OwnParts {}

/** The sources of the director's own rows. */
export interface OwnParts {
  readonly tablet: DirectorTablet;
  readonly agentHealths: Pick<AgentHealths, "shown">;
  readonly clock: Clock;
  readonly endedTasks: Pick<EndedTasks, "page">;
  readonly locks: Pick<LockKeeper, "list">;
  readonly calls: Pick<CallRecords, "awaited">;
  /** The CPI reports of each dispatcher, by its name. */
  readonly cpisOf: readonly DispatcherCpis[];
  readonly report: () => ProcessReport;
  /** Time after which waiting work counts as stuck. */
  readonly stuckAfterMs: number;
}

const MAX_LIVE_TASKS = 500;
const MAX_ENDED_TASKS = 50;
const MAX_ORPHANS = 500;
const CPIS_INTERVAL_MS = 2_000;
/** Delay before a failed read is repeated. */
const AGAIN_MS = 2_000;
/** Interval of task updates, because tasks become stuck without a change in the tablet. */
const TASKS_INTERVAL_MS = 5_000;

/** Returns the display name of a CPI of a dispatcher. */
export function cpiName({ cpisOf }: Pick<OwnParts, "cpisOf">, dispatcher: string, cpi: string): string {
  return cpisOf.length === 1 ? cpi : `${cpi} (${dispatcher})`;
}

/** Keeps the cached rows of the director's own state current until the signal aborts. */
export function keepOwnRows(options: OwnOptions, signal: AbortSignal): void {
  void keepTasksAndLocks(options, signal);
  void keepVmsUp(options, signal);
  for (const dispatcher of options.cpisOf) void keepCpis(dispatcher, options, signal);
}

/** Restarts keepVms after the tablet could not be read. */
async function keepVmsUp(options: OwnOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await keepVms(options, signal).catch(() => {});
    await options.clock.sleep(AGAIN_MS, signal).catch(() => {});
  }
}

async function keepTasksAndLocks(options: OwnOptions, signal: AbortSignal): Promise<void> {
  const { rowCache, tablet, locks, lookIntervalMs, report, clock } = options;
  let hasChanged = true;
  let readFailure = "";
  const unwatch = tablet.watch((changes) => {
    hasChanged ||= changes.some(({ table }) => table === "tasks" || table === "possibleOrphans");
  });
  let lookedAtMs = 0;
  let locksBefore = "";
  try {
    while (!signal.aborted) {
      const held = locks.list();
      const locksNow = JSON.stringify(held);
      rowCache.setAll("lock", new Map(held.map((lock) => [lockName(lock), lockRow(lock)])));
      const isDue = clock.monotonicMs() - lookedAtMs > TASKS_INTERVAL_MS;
      let pauseMs = lookIntervalMs;
      if (hasChanged || isDue || locksNow !== locksBefore) {
        hasChanged = false;
        lookedAtMs = clock.monotonicMs();
        locksBefore = locksNow;
        try {
          rowCache.setAll("task", await taskRows(options));
          rowCache.setAll("orphan", await orphanRows(tablet));
          readFailure = "";
        } catch (error) {
          readFailure = messageOf(error);
          hasChanged = true;
          pauseMs = AGAIN_MS;
        }
      }
      rowCache.set("source", "director", ownSourceRow(report(), readFailure));
      await clock.sleep(pauseMs, signal).catch(() => {});
    }
  } finally {
    unwatch();
  }
}

function orphanRows(tablet: DirectorTablet): Promise<Map<string, OrphanRow>> {
  return tablet.read(({ possibleOrphans }) => {
    const latest = [...possibleOrphans.entries()].sort((a, b) => b.sinceMs - a.sinceMs).slice(0, MAX_ORPHANS);
    return new Map(latest.map((orphan) => [orphan.token, orphanRow(orphan)]));
  });
}

/** Returns the rows of live tasks, newest first, and of recently ended tasks. */
export async function taskRows({
  tablet,
  endedTasks,
  locks,
  calls,
  clock,
  stuckAfterMs,
}: OwnParts): Promise<Map<string, TaskRow>> {
  const waitsFor = new Map(
    locks.list().flatMap((lock) => lock.waitingTaskIds.map((taskId) => [taskId, lock] as const)),
  );
  const tasks = await tablet.read((tables) => {
    const live: Task[] = [];
    const ended: Task[] = [];
    for (const task of tables.tasks.entries()) {
      if (!hasEnded(task) && live.length < MAX_LIVE_TASKS) live.push(task);
      else if (hasEnded(task) && ended.length < MAX_ENDED_TASKS) ended.push(task);
    }
    return [...live, ...ended];
  });
  // The tablet is read before the log. Tasks move only from the tablet into the log, so a task that moves between the
  // two reads is not missed.
  const putAway = await endedTasks.page(
    { states: new Set(), deployment: undefined },
    { after: "", limit: MAX_ENDED_TASKS },
  );
  const { awaited } = calls;
  const known = {
    lockFor: (taskId: number) => waitsFor.get(taskId),
    callsOf: (taskId: number) => awaited.filter((call) => call.taskId === taskId),
    stuckAfterMs,
    nowMs: clock.nowMs(),
  };
  return new Map([...tasks, ...putAway].map((task) => [String(task.taskId), taskRow(task, known)]));
}

async function keepCpis({ name, list }: DispatcherCpis, options: OwnOptions, signal: AbortSignal): Promise<void> {
  const { rowCache, clock } = options;
  const rowName = (cpi: string): string => cpiName(options, name, cpi);
  let shown = new Set<string>();
  let silentSinceMs: number | undefined;
  while (!signal.aborted) {
    try {
      const cpis = await list(signal);
      if (signal.aborted) return;
      for (const cpi of cpis) rowCache.set("cpi", rowName(cpi.name), cpiRow(cpi));
      const now = new Set(cpis.map((cpi) => rowName(cpi.name)));
      for (const gone of shown) if (!now.has(gone)) rowCache.set("cpi", gone, undefined);
      shown = now;
      silentSinceMs = undefined;
      rowCache.set("source", name, { state: "live" });
    } catch (error) {
      if (signal.aborted) return;
      silentSinceMs ??= clock.nowMs();
      rowCache.set("source", name, { state: "silent", trouble: messageOf(error), sinceMs: silentSinceMs });
    }
    await clock.sleep(CPIS_INTERVAL_MS, signal).catch(() => {});
  }
}
