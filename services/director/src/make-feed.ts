import type { Clock } from "@diskmesh/service";
import type { ProcessReport } from "@diskmesh/tablet-admin";
import type { AgentHealths } from "./agents/agent-healths.js";
import type { DirectorLimits } from "./config/limits.js";
import type { CallRecords } from "./cpi/call-records.js";
import type { CpiConfigSource } from "./cpi/cpi-calls.js";
import type { Dispatcher } from "./cpi/dispatchers.js";
import type { Registries } from "./explain/registries.js";
import type { LockKeeper } from "./locks/lock-keeper.js";
import { Feed } from "./page/feed.js";
import { Fleet } from "./page/fleet.js";
import { keepOwnRows } from "./page/own.js";
import { RowCache } from "./page/row-cache.js";
import { readTroublesOnce } from "./page/troubles.js";
import type { DirectorTablet } from "./store/stored-schema.js";
import type { EndedTasks } from "./tasks/ended-tasks.js";

export interface MakeFeedOptions {
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

/** Creates the page's feed and the parts that keep its rows current while a browser is connected. */
export function makeFeed({
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
}: MakeFeedOptions): Feed {
  const rowCache = new RowCache();
  const { sendIntervalMs: lookIntervalMs, stuckAfterMs } = limits.page;
  const cpisOf = dispatchers.map(({ address, client }) => {
    const name = dispatchers.length === 1 ? "cpi-dispatcher" : `cpi-dispatcher ${address}`;
    const list = async (signal: AbortSignal) => {
      const cpiConfigVersion = await cpiConfig.version();
      const context = { directorId: tablet.id, directorGeneration: tablet.generation, cpiConfigVersion };
      return (await client.listCpis({ context }, { signal, deadlineMs: limits.nodes.requestTimeoutMs })).cpis;
    };
    return { name, list };
  });
  const own = { tablet, endedTasks, locks, calls, cpisOf, agentHealths, report, stuckAfterMs, clock };
  const keepUp = (signal: AbortSignal): void => {
    const fleets = registries.named().map(({ name, clients }) => new Fleet(name, clients, rowCache, clock, signal));
    for (const fleet of fleets) fleet.start();
    const hostVmCids = (): ReadonlySet<string> | undefined => {
      const found = fleets.map((fleet) => fleet.vmCids());
      return found.length === 0 || found.includes(undefined) ? undefined : new Set(found.flatMap((each) => each ?? []));
    };
    keepOwnRows({ rowCache, ...own, hostVmCids, lookIntervalMs }, signal);
  };
  const readTroubles = (signal: AbortSignal) => readTroublesOnce(own, registries, signal);
  return new Feed({ rowCache, limits: limits.page, keepUp, readTroubles, clock });
}
