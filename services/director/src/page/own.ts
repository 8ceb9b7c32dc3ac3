import type { ListCpisResponse } from "@diskmesh/api/cpi";
import { messageOf } from "@diskmesh/domain";
import type { OrphanRow, TaskRow, VmRow } from "@diskmesh/page/rows";
import type { Clock } from "@diskmesh/service";
import { isForgottenHost } from "../explain/explain-vm.js";
import { type KnownContext, type LookedUp, NOTHING_LOOKED_UP, whatIsKnown } from "../explain/known.js";
import type { Registries } from "../explain/registries.js";
import { lockName } from "../locks/locks.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Task } from "../store/task.js";
import type { EndedTasks } from "../tasks/ended-tasks.js";
import type { TaskLog } from "../tasks/task-log.js";
import { cpiRow, lockRow, orphanRow, taskRow } from "./own-rows.js";
import type { RowCache } from "./row-cache.js";
import { ownSourceRow } from "./source-row.js";
import { labelRows, vmRows } from "./vms.js";

interface DispatcherCpis {
  readonly name: string;
  /** True: there is no other dispatcher, whose CPIs may have the same names. */
  readonly isOne: boolean;
  readonly list: (signal: AbortSignal) => Promise<ListCpisResponse["cpis"]>;
}

/** The sources of the director's own rows. */
export interface OwnParts extends KnownContext {
  readonly tablet: DirectorTablet;
  readonly endedTasks: Pick<EndedTasks, "page">;
  readonly taskLog: Pick<TaskLog, "progress">;
  readonly registries: Pick<Registries, "hostsOf">;
}

const MAX_LIVE_TASKS = 500;
const MAX_ENDED_TASKS = 50;
const MAX_ORPHANS = 500;
/** The tables that the rows are made of. */
const TABLES: ReadonlySet<string> = new Set([
  "tasks",
  "possibleOrphans",
  "instances",
  "owedRemovals",
  "disks",
  "persistentDisks",
]);
/** Interval of reads without a change of the tables, because tasks become stuck and agents fall silent by time. */
const LOOK_INTERVAL_MS = 5_000;
/** Maximum instances that are read at once, so that other requests are not delayed long. */
const INSTANCES_AT_ONCE = 500;

/** Reads what has changed of the director's own state into the page's rows. */
export class OwnRows {
  /** True: a table has changed since the rows were made. */
  #hasChanged = true;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #locksBefore = "";
  /** The VMs that no registry has as hosts, by their cids. */
  #nowhere: LookedUp["hosts"] = new Map();

  constructor(
    private readonly own: OwnParts,
    private readonly rowCache: RowCache,
    /** Returns the cids of the VMs that are hosts of registries; undefined while not all hosts are known. */
    private readonly hostVmCids: () => Promise<ReadonlySet<string> | undefined>,
  ) {
    own.tablet.watch((changes) => {
      this.#hasChanged ||= changes.some(({ table }) => TABLES.has(table));
    });
  }

  /** Reads what has changed. A failure becomes the director's own row; throws only when the signal aborts. */
  async read(signal: AbortSignal): Promise<void> {
    const { own, rowCache } = this;
    let failure = "";
    try {
      await this.#readAll(signal);
    } catch (error) {
      signal.throwIfAborted();
      failure = messageOf(error);
      this.#hasChanged = true;
    }
    rowCache.set("source", "director", ownSourceRow(own.report(), failure));
  }

  async #readAll(signal: AbortSignal): Promise<void> {
    const { own, rowCache } = this;
    const held = own.locks.list();
    rowCache.setAll("lock", new Map(held.map((lock) => [lockName(lock), lockRow(lock)])));
    const locks = JSON.stringify(held);
    const isDue = own.clock.monotonicMs() - this.#lookedAtMs >= LOOK_INTERVAL_MS;
    if (!this.#hasChanged && locks === this.#locksBefore && !isDue) return;
    this.#hasChanged = false;
    this.#locksBefore = locks;
    rowCache.setAll("task", await taskRows(own));
    rowCache.setAll("orphan", await orphanRows(own.tablet));
    if (isDue) this.#lookedAtMs = own.clock.monotonicMs();
    if (isDue) this.#nowhere = await this.#vmsNowhere(signal);
    rowCache.setAll("label", await own.tablet.read(labelRows));
    rowCache.setAll("vm", await this.#vmRows());
  }

  /**
   * Returns the VMs that no registry has as hosts. The registries are asked for each such VM, because their hosts were
   * read apart from the instances.
   */
  async #vmsNowhere(signal: AbortSignal): Promise<LookedUp["hosts"]> {
    const { tablet, registries } = this.own;
    const hosts = await this.hostVmCids();
    if (hosts === undefined) return new Map();
    const cids = await tablet.read(({ instances }) =>
      Array.from(instances.entries()).flatMap((instance) => {
        const isNowhere = !hosts.has(instance.vmCid);
        return instance.vmState === "running" && isForgottenHost({ instance, isNowhere }) ? instance.vmCid : [];
      }),
    );
    const asked = cids.map(async (cid) => [cid, await registries.hostsOf(cid, { signal })] as const);
    return new Map((await Promise.all(asked)).filter(([, { isNowhere }]) => isNowhere));
  }

  async #vmRows(): Promise<Map<string, VmRow>> {
    const { tablet, agentHealths } = this.own;
    const rows = new Map<string, VmRow>();
    for (let after: string | undefined, isLast = false; !isLast; )
      await tablet.read((tables) => {
        const instances = [...tables.instances.entries({ after, limit: INSTANCES_AT_ONCE })];
        const known = whatIsKnown(this.own, tables, { ...NOTHING_LOOKED_UP, hosts: this.#nowhere });
        for (const [name, row] of vmRows(instances, known, agentHealths)) rows.set(name, row);
        after = instances.at(-1)?.instanceId;
        isLast = instances.length < INSTANCES_AT_ONCE;
      });
    return rows;
  }
}

function orphanRows(tablet: DirectorTablet): Promise<Map<string, OrphanRow>> {
  return tablet.read(({ possibleOrphans }) => {
    const latest = [...possibleOrphans.entries()].sort((a, b) => b.sinceMs - a.sinceMs).slice(0, MAX_ORPHANS);
    return new Map(latest.map((orphan) => [orphan.token, orphanRow(orphan)]));
  });
}

/** Returns the rows of live tasks, newest first, and of recently ended tasks. */
async function taskRows(own: OwnParts): Promise<Map<string, TaskRow>> {
  const { tablet, endedTasks } = own;
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
  return tablet.read((tables) => {
    const known = whatIsKnown(own, tables, NOTHING_LOOKED_UP);
    return new Map(
      [...tasks, ...putAway].map((task) => [
        String(task.taskId),
        taskRow(task, known, own.taskLog.progress(task.taskId)),
      ]),
    );
  });
}

/** Reads the CPIs of a dispatcher into the page's rows. */
export class CpiRows {
  #shown = new Set<string>();
  #silentSinceMs: number | undefined;

  constructor(
    private readonly dispatcher: DispatcherCpis,
    private readonly rowCache: RowCache,
    private readonly clock: Clock,
  ) {}

  /** Reads the CPIs. A failure becomes the dispatcher's own row; throws only when the signal aborts. */
  async read(signal: AbortSignal): Promise<void> {
    const { rowCache, clock } = this;
    const { name, list, isOne } = this.dispatcher;
    try {
      const rows = new Map(
        (await list(signal)).map((cpi) => [isOne ? cpi.name : `${cpi.name} (${name})`, cpiRow(cpi)]),
      );
      for (const gone of this.#shown) if (!rows.has(gone)) rowCache.set("cpi", gone, undefined);
      for (const [cpi, row] of rows) rowCache.set("cpi", cpi, row);
      this.#shown = new Set(rows.keys());
      this.#silentSinceMs = undefined;
      rowCache.set("source", name, { state: "live" });
    } catch (error) {
      signal.throwIfAborted();
      this.#silentSinceMs ??= clock.nowMs();
      rowCache.set("source", name, { state: "silent", trouble: messageOf(error), sinceMs: this.#silentSinceMs });
    }
  }
}
