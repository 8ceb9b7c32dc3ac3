import { messageOf } from "@diskmesh/domain";
import type { EventEntry, EventsAnswer } from "@diskmesh/page/rows";
import { listEvents, NO_FILTERS } from "../audit/handlers.js";
import type { ExplainContext } from "../explain/context.js";
import { recordedDisk } from "../explain/known.js";
import type { TaskContext } from "../tasks/context.js";
import { ofDirector, ofRegistry } from "./event-entry.js";

/** Events that each source is asked for. */
const PAGE_SIZE = 100;

export interface EventFilters {
  readonly thing: string;
  readonly user: string;
  /** An action, or several with commas between them; empty for all. */
  readonly action: string;
  readonly answer: string;
  readonly afterTime: Date | undefined;
  readonly beforeTime: Date | undefined;
  /** True: only what each source finds at once, without a search of all its events. */
  readonly isBrief: boolean;
}

type EventsContext = Pick<ExplainContext, "registries" | "tablet"> & Pick<TaskContext, "events">;
type List = (pageToken: string) => Promise<{ readonly entries: readonly EventEntry[]; readonly nextPageToken: string }>;

/** Returns the newest events of the director and its registries, from every source that answers. */
export async function eventsOf(
  context: EventsContext,
  { isBrief, ...filters }: EventFilters,
  signal: AbortSignal,
): Promise<EventsAnswer> {
  const things = await namesOf(context, filters.thing);
  const lists = filters.action.split(",").flatMap((action) => {
    return things.flatMap((thing) => listsOf(context, { ...filters, action: action.trim(), thing }, signal));
  });
  return newestOf(lists, isBrief);
}

/** Returns the newest events of all lists, each event once. Events of one millisecond are always in one answer. */
export async function newestOf(lists: readonly List[], isBrief: boolean): Promise<EventsAnswer> {
  const settled = await Promise.allSettled(lists.map((list) => readNewest(list, isBrief)));
  const found = settled.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
  const missing = settled.flatMap((each) => (each.status === "rejected" ? messageOf(each.reason) : []));
  // Events up to this time may be missing, because a source has more of them.
  const untilMs = Math.max(0, ...found.map((each) => each.untilMs));
  const byId = new Map(found.flatMap(({ entries }) => entries.map((entry) => [entry.id, entry] as const)));
  const entries = [...byId.values()].filter(({ timeMs }) => timeMs > untilMs).sort((a, b) => b.timeMs - a.timeMs);
  return { entries, missing: [...new Set(missing)], ...(untilMs > 0 && { beforeMs: untilMs + 1 }) };
}

/** Returns the names under which the services know a thing: a disk has its user's name and its cid. */
function namesOf({ tablet }: EventsContext, thing: string): Promise<string[]> {
  return tablet.read((tables) => {
    const disk = thing === "" ? undefined : recordedDisk(tables, thing);
    const names = disk === undefined ? [] : [disk.diskCid, "name" in disk ? disk.name : ""];
    return [thing, ...names.filter((name) => name !== "" && name !== thing)];
  });
}

function listsOf(
  { events, registries }: EventsContext,
  filters: Omit<EventFilters, "isBrief">,
  signal: AbortSignal,
): List[] {
  const own: List = async (pageToken) => {
    const request = { ...NO_FILTERS, ...filters, beforeId: 0, pageSize: PAGE_SIZE, pageToken };
    const page = await listEvents({ events }, request, { signal });
    return { ...page, entries: page.events.map(ofDirector) };
  };
  const others = registries.named().map(({ name, clients }): List => {
    return async (pageToken) => {
      const request = { ...filters, pageSize: PAGE_SIZE, pageToken };
      const page = await clients.registry.listFleetEvents(request, { signal }).catch((error: unknown) => {
        throw new Error(`${name}: ${messageOf(error)}`, { cause: error });
      });
      return { ...page, entries: page.events.map((event) => ofRegistry(name, event)) };
    };
  });
  return [own, ...others];
}

/** Returns a list's newest events, complete after `untilMs`. */
async function readNewest(
  list: List,
  isBrief: boolean,
): Promise<{ readonly entries: readonly EventEntry[]; readonly untilMs: number }> {
  const entries: EventEntry[] = [];
  for (let pageToken = ""; ; ) {
    const page = await list(pageToken);
    entries.push(...page.entries);
    pageToken = page.nextPageToken;
    if (pageToken === "" || isBrief) return { entries, untilMs: 0 };
    const untilMs = entries.at(-1)?.timeMs ?? 0;
    if (entries.length >= PAGE_SIZE && entries[0]?.timeMs !== untilMs) return { entries, untilMs };
  }
}
