import type { ListCpisResponse } from "@diskmesh/api/cpi";
import { messageOf } from "@diskmesh/domain";
import type { OrphanRow, TaskRow, VmRow } from "@diskmesh/page/rows";
import type { Clock } from "@diskmesh/service";
import type { ProcessReport } from "@diskmesh/tablet-admin";
import type { AgentHealths } from "../agents/agent-healths.js";
import type { CallRecords } from "../cpi/call-records.js";
import type { LockKeeper } from "../locks/lock-keeper.js";
import { lockName } from "../locks/locks.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Task } from "../store/task.js";
import type { EndedTasks } from "../tasks/ended-tasks.js";
import { cpiRow, lockRow, orphanRow, taskRow } from "./own-rows.js";
import type { RowCache } from "./row-cache.js";
import { ownSourceRow } from "./source-row.js";
import { labelRows, vmRows } from "./vms.js";

interface DispatcherCpis {
  readonly name: string;
  readonly list: (signal: AbortSignal) => Promise<ListCpisResponse["cpis"]>;
}

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
/** Interval of reads without a change of the tables, because tasks become stuck and agents fall silent by time. */
const LOOK_INTERVAL_MS = 5_000;
/** Maximum instances that are read at once, so that other requests are not delayed long. */
const INSTANCES_AT_ONCE = 500;

/** Returns the display name of a CPI of a dispatcher. */
export function cpiName({ cpisOf }: Pick<OwnParts, "cpisOf">, dispatcher: string, cpi: string): string {
  return cpisOf.length === 1 ? cpi : `${cpi} (${dispatcher})`;
}

/** Reads what has changed of the director's own state into the page's rows. */
export class OwnRows {
  readonly #tasks = new Set(["tasks", "possibleOrphans"]);
  readonly #vms = new Set(["instances", "owedRemovals", "disks", "persistentDisks"]);
  /** Tables that have changed since the rows were made of them. */
  readonly #changed = new Set([...this.#tasks, ...this.#vms]);
  #lookedAtMs: number;
  #locksBefore = "";
  /** The cids of VMs that no registry had as hosts at the last look, by instance. */
  #nowhere: ReadonlyMap<string, string> = new Map();

  constructor(
    private readonly own: OwnParts,
    private readonly rowCache: RowCache,
    /** Returns the cids of the VMs that are hosts of registries; undefined while not all hosts are known. */
    private readonly hostVmCids: () => ReadonlySet<string> | undefined,
  ) {
    this.#lookedAtMs = own.clock.monotonicMs();
    own.tablet.watch((changes) => {
      for (const { table } of changes) this.#changed.add(table);
    });
  }

  /** Reads what has changed. A failure becomes the director's own row. */
  async read(): Promise<void> {
    const { own, rowCache } = this;
    let failure = "";
    try {
      await this.#readAll();
    } catch (error) {
      failure = messageOf(error);
      for (const table of [...this.#tasks, ...this.#vms]) this.#changed.add(table);
    }
    rowCache.set("source", "director", ownSourceRow(own.report(), failure));
  }

  async #readAll(): Promise<void> {
    const { own, rowCache } = this;
    const held = own.locks.list();
    rowCache.setAll("lock", new Map(held.map((lock) => [lockName(lock), lockRow(lock)])));
    const locks = JSON.stringify(held);
    const isDue = own.clock.monotonicMs() - this.#lookedAtMs >= LOOK_INTERVAL_MS;
    if (isDue) this.#lookedAtMs = own.clock.monotonicMs();
    if (this.#take(this.#tasks) || locks !== this.#locksBefore || isDue) {
      this.#locksBefore = locks;
      rowCache.setAll("task", await taskRows(own));
      rowCache.setAll("orphan", await orphanRows(own.tablet));
    }
    if (this.#take(this.#vms) || isDue) await this.#readVms(isDue);
  }

  /** Returns whether one of the tables has changed, and takes note that it is read now. */
  #take(tables: ReadonlySet<string>): boolean {
    let hasChanged = false;
    for (const table of tables) hasChanged = this.#changed.delete(table) || hasChanged;
    return hasChanged;
  }

  /** A VM is told to be nowhere after two looks, because the hosts are read apart from the instances. */
  async #readVms(isLook: boolean): Promise<void> {
    const { own, rowCache } = this;
    const before = this.#nowhere;
    const hosts = this.hostVmCids();
    const nowhere = new Map<string, string>();
    const isNowhere = ({ instanceId, vmCid }: Instance): boolean => {
      if (hosts === undefined || hosts.has(vmCid)) return false;
      nowhere.set(instanceId, vmCid);
      return before.get(instanceId) === vmCid;
    };
    const rows = await allVmRows(own, isNowhere);
    if (isLook) this.#nowhere = nowhere;
    rowCache.setAll("label", await own.tablet.read(labelRows));
    rowCache.setAll("vm", rows);
  }
}

/** Returns the rows of all instances. */
export async function allVmRows(
  { tablet, agentHealths }: Pick<OwnParts, "tablet" | "agentHealths">,
  isNowhere: (instance: Instance) => boolean,
): Promise<Map<string, VmRow>> {
  const rows = new Map<string, VmRow>();
  for (let after: string | undefined, isLast = false; !isLast; )
    await tablet.read((tables) => {
      const instances = [...tables.instances.entries({ after, limit: INSTANCES_AT_ONCE })];
      for (const [name, row] of vmRows(tables, instances, { agentHealths, isNowhere })) rows.set(name, row);
      after = instances.at(-1)?.instanceId;
      isLast = instances.length < INSTANCES_AT_ONCE;
    });
  return rows;
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

/** Reads the CPIs of a dispatcher into the page's rows. */
export class CpiRows {
  #shown = new Set<string>();
  #silentSinceMs: number | undefined;

  constructor(
    private readonly dispatcher: DispatcherCpis,
    private readonly own: OwnParts,
    private readonly rowCache: RowCache,
  ) {}

  /** Reads the CPIs. A failure becomes the dispatcher's own row; throws only when the signal aborts. */
  async read(signal: AbortSignal): Promise<void> {
    const { dispatcher, own, rowCache } = this;
    const { name, list } = dispatcher;
    try {
      const rows = new Map((await list(signal)).map((cpi) => [cpiName(own, name, cpi.name), cpiRow(cpi)]));
      for (const gone of this.#shown) if (!rows.has(gone)) rowCache.set("cpi", gone, undefined);
      for (const [cpi, row] of rows) rowCache.set("cpi", cpi, row);
      this.#shown = new Set(rows.keys());
      this.#silentSinceMs = undefined;
      rowCache.set("source", name, { state: "live" });
    } catch (error) {
      signal.throwIfAborted();
      this.#silentSinceMs ??= own.clock.nowMs();
      rowCache.set("source", name, { state: "silent", trouble: messageOf(error), sinceMs: this.#silentSinceMs });
    }
  }
}
