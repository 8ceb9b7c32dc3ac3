import {
  Authentication,
  type ListEventsRequest,
  type ListEventsResponse,
  type Event as WireEvent,
} from "@diskmesh/api/director";
import { InvalidArgumentError } from "@diskmesh/domain";
import { LIST_LIMITS, parsePageSize, parsePlace, placeToken } from "@diskmesh/rpc";
import type { NumberedEvent } from "../store/director-event.js";
import type { Events } from "./events.js";

/** Filters that match all events. */
export const NO_FILTERS = {
  beforeTime: undefined,
  afterTime: undefined,
  deployment: "",
  taskId: 0,
  instance: "",
  user: "",
  action: "",
  objectType: "",
  objectName: "",
  thing: "",
  answer: "",
  requestId: "",
};

interface Asking {
  readonly signal?: AbortSignal;
  /** Returns true when the caller may see the event. Default: all events. */
  readonly isVisible?: (event: Pick<NumberedEvent, "deployment">) => boolean;
}

/**
 * Lists the events that match the request, newest first. Throws the signal's reason once the caller no longer waits.
 */
export async function listEvents(
  context: { readonly events: Events },
  request: ListEventsRequest,
  { signal, isVisible = () => true }: Asking = {},
): Promise<ListEventsResponse> {
  const { pageSize, pageToken, ...filters } = request;
  const { beforeId } = filters;
  if (beforeId < 0)
    throw new InvalidArgumentError(`before_id is ${beforeId}: it must not be negative`, {
      about: { field: "before_id" },
    });
  const size = parsePageSize(pageSize, LIST_LIMITS);
  const { first, next } = await context.events.bounds();
  const place = pageToken === "" ? next : Number(parsePlace(pageToken, filters));
  // The index of an event is its id minus one.
  let index = beforeId === 0 ? place : Math.min(place, beforeId - 1);
  const events: WireEvent[] = [];
  for (let leftToScan = LIST_LIMITS.maxScannedPerPage; index > first && leftToScan > 0; ) {
    signal?.throwIfAborted();
    const some = await context.events.readBelow(index);
    for (const event of some) {
      if (events.length === size || leftToScan-- <= 0) break;
      index = event.eventId - 1;
      if (isVisible(event) && matches(event, filters)) events.push(encodeEvent(event));
    }
    if (some.length === 0) index = first;
    if (events.length === size) break;
  }
  return { events, nextPageToken: index > first ? placeToken(String(index), filters) : "" };
}

function matches(
  event: NumberedEvent,
  { beforeTime, afterTime, beforeId, thing, ...wanted }: Omit<ListEventsRequest, "pageSize" | "pageToken">,
): boolean {
  const fields = Object.entries(wanted) as [keyof typeof wanted, string | number][];
  if (fields.some(([field, value]) => value !== "" && value !== 0 && event[field] !== value)) return false;
  if (thing !== "" && !thingsOf(event).includes(thing)) return false;
  return event.timeMs < (beforeTime?.getTime() ?? Infinity) && event.timeMs >= (afterTime?.getTime() ?? 0);
}

function thingsOf({ objectName, deployment, instance, context }: NumberedEvent): readonly string[] {
  return [objectName, deployment, instance, ...instance.split("/"), ...Object.values(context)];
}

function encodeEvent({ timeMs, context, authentication, ...event }: NumberedEvent): WireEvent {
  return {
    ...event,
    eventTime: new Date(timeMs),
    context: { ...context },
    authentication:
      Authentication[authentication.toUpperCase() as keyof typeof Authentication] ?? Authentication.UNSPECIFIED,
  };
}
