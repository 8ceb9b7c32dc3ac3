import { messageOf } from "@diskmesh/domain";
import type { EventEntry, EventsAnswer } from "@diskmesh/page/rows";
import { listEvents, NO_FILTERS } from "../audit/handlers.js";
import type { ExplainContext } from "../explain/context.js";
import type { TaskContext } from "../tasks/context.js";
import { ofDirector, ofRegistry } from "./event-entry.js";

/** Minimum events of a page that is not the last. */
const PAGE_SIZE = 100;

export interface EventFilters {
  readonly thing: string;
  readonly user: string;
  readonly action: string;
  readonly answer: string;
  readonly afterTime: Date | undefined;
  readonly beforeTime: Date | undefined;
}

type EventsContext = Pick<ExplainContext, "registries"> & Pick<TaskContext, "events">;

/**
 * Returns a page of the events of the director and its registries, newest first, from every source that answers. Events
 * of one millisecond are always on one page.
 */
export async function eventsOf(
  context: EventsContext,
  filters: EventFilters,
  signal: AbortSignal,
): Promise<EventsAnswer> {
  const missing: string[] = [];
  const sources = [
    ownEvents(context, filters, signal),
    ...context.registries.named().map(({ name, clients }) => registryEvents(name, clients.registry, filters, signal)),
  ];
  const next = (source: AsyncGenerator<EventEntry>): Promise<EventEntry | undefined> =>
    source.next().then(
      ({ value }) => value as EventEntry | undefined,
      (error: unknown) => void missing.push(messageOf(error)),
    );
  const heads = await Promise.all(sources.map(next));
  const entries: EventEntry[] = [];
  for (;;) {
    const latestMs = Math.max(...heads.map((head) => head?.timeMs ?? Number.NEGATIVE_INFINITY));
    const at = heads.findIndex((head) => head?.timeMs === latestMs);
    const [head, source] = [heads[at], sources[at]];
    if (head === undefined || source === undefined) return { entries, missing };
    const lastMs = entries.at(-1)?.timeMs ?? 0;
    if (entries.length >= PAGE_SIZE && latestMs < lastMs) return { entries, missing, beforeMs: lastMs };
    entries.push(head);
    heads[at] = await next(source);
  }
}

async function* ownEvents(
  context: EventsContext,
  filters: EventFilters,
  signal: AbortSignal,
): AsyncGenerator<EventEntry> {
  for (let pageToken = ""; ; ) {
    const request = { ...NO_FILTERS, ...filters, beforeId: 0, pageSize: PAGE_SIZE, pageToken };
    const page = await listEvents(context, request, { signal });
    yield* page.events.map(ofDirector);
    pageToken = page.nextPageToken;
    if (pageToken === "") return;
  }
}

async function* registryEvents(
  name: string,
  registry: ReturnType<EventsContext["registries"]["named"]>[number]["clients"]["registry"],
  filters: EventFilters,
  signal: AbortSignal,
): AsyncGenerator<EventEntry> {
  for (let pageToken = ""; ; ) {
    const request = { ...filters, pageSize: PAGE_SIZE, pageToken };
    const page = await registry.listEvents(request, { signal }).catch((error: unknown) => {
      throw new Error(`${name}: ${messageOf(error)}`, { cause: error });
    });
    yield* page.events.map(ofRegistry);
    pageToken = page.nextPageToken;
    if (pageToken === "") return;
  }
}
