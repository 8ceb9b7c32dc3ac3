import type { CpiConfigSource } from "./cpi/cpi-calls.js";
import type { Dispatcher } from "./cpi/dispatchers.js";
import type { Registries } from "./explain/registries.js";
import { Fleet } from "./page/fleet.js";
import { Overview } from "./page/overview.js";
import { CpiRows, type OwnParts, OwnRows } from "./page/own.js";
import { RowCache } from "./page/row-cache.js";

/** Deadline of a dispatcher's list, which it has in memory. */
const CPIS_DEADLINE_MS = 3_000;

/** The sources of CPIs. */
interface CpiSources {
  readonly dispatchers: readonly Pick<Dispatcher, "address" | "client">[];
  readonly cpiConfig: Pick<CpiConfigSource, "version">;
}

/** Creates the page's overview with all sources of its rows. */
export function makeOverview(
  own: OwnParts & { readonly registries: Registries },
  { dispatchers, cpiConfig }: CpiSources,
): Overview {
  const { tablet, registries, clock } = own;
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
  const fleets = registries.named().map(({ name, clients }) => new Fleet(name, clients, rowCache, clock));
  const hostVmCids = async (): Promise<ReadonlySet<string> | undefined> => {
    const found = await Promise.all(fleets.map((fleet) => fleet.vmCids()));
    return found.length === 0 || found.includes(undefined) ? undefined : new Set(found.flatMap((each) => each ?? []));
  };
  return new Overview([new OwnRows(own, rowCache, hostVmCids), ...fleets, ...cpis], rowCache, clock);
}
