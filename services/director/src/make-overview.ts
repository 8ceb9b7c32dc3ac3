import type { Clock } from "@diskmesh/service";
import type { ProcessReport } from "@diskmesh/tablet-admin";
import type { AgentHealths } from "./agents/agent-healths.js";
import type { DirectorLimits } from "./config/limits.js";
import type { CallRecords } from "./cpi/call-records.js";
import type { CpiConfigSource } from "./cpi/cpi-calls.js";
import type { Dispatcher } from "./cpi/dispatchers.js";
import type { Registries } from "./explain/registries.js";
import type { LockKeeper } from "./locks/lock-keeper.js";
import { Fleet } from "./page/fleet.js";
import { Overview } from "./page/overview.js";
import { CpiRows, OwnRows } from "./page/own.js";
import { RowCache } from "./page/row-cache.js";
import type { DirectorTablet } from "./store/stored-schema.js";
import type { EndedTasks } from "./tasks/ended-tasks.js";

/** Deadline of a dispatcher's list, which it has in memory. */
const CPIS_DEADLINE_MS = 3_000;

export interface MakeOverviewOptions {
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly endedTasks: Pick<EndedTasks, "page">;
  readonly locks: Pick<LockKeeper, "list">;
  readonly calls: Pick<CallRecords, "awaited">;
  readonly agentHealths: Pick<AgentHealths, "shown">;
  readonly registries: Registries;
  readonly dispatchers: readonly Pick<Dispatcher, "address" | "client">[];
  readonly cpiConfig: Pick<CpiConfigSource, "version">;
  readonly report: () => ProcessReport;
  readonly clock: Clock;
}

/** Creates the page's overview with all sources of its rows. */
export function makeOverview({
  limits,
  tablet,
  endedTasks,
  locks,
  calls,
  agentHealths,
  registries,
  dispatchers,
  cpiConfig,
  report,
  clock,
}: MakeOverviewOptions): Overview {
  const rowCache = new RowCache();
  const isOne = dispatchers.length === 1;
  const cpis = dispatchers.map(({ address, client }) => {
    const list = async (signal: AbortSignal) => {
      const cpiConfigVersion = await cpiConfig.version();
      const context = { directorId: tablet.id, directorGeneration: tablet.generation, cpiConfigVersion };
      return (await client.listCpis({ context }, { signal, deadlineMs: CPIS_DEADLINE_MS })).cpis;
    };
    return new CpiRows({ name: isOne ? "cpi-dispatcher" : `cpi-dispatcher ${address}`, list, isOne }, rowCache, clock);
  });
  const { stuckAfterMs } = limits.page;
  const own = { tablet, endedTasks, locks, calls, agentHealths, registries, report, stuckAfterMs, clock };
  const fleets = registries.named().map(({ name, clients }) => new Fleet(name, clients, rowCache, clock));
  const hostVmCids = async (): Promise<ReadonlySet<string> | undefined> => {
    const found = await Promise.all(fleets.map((fleet) => fleet.vmCids()));
    return found.length === 0 || found.includes(undefined) ? undefined : new Set(found.flatMap((each) => each ?? []));
  };
  return new Overview([new OwnRows(own, rowCache, hostVmCids), ...fleets, ...cpis], rowCache, clock);
}
