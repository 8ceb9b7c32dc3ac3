import { Authentication, type Event } from "@diskmesh/api/director";
import { NotFoundError } from "@diskmesh/domain";
import { listEvents, NO_FILTERS } from "../../audit/handlers.js";
import { lower } from "../../page/fleet-rows.js";
import { json } from "../answer.js";
import { BadRequestError } from "../http-error.js";
import type { HttpCall, Route } from "../route.js";

/** BOSH's page size; clients request further pages with `before_id`. */
const PAGE_SIZE = 200;

export const eventRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/events",
    operation: "listEvents",
    teams: "own",
    serve: async (http) => {
      const filters = filtersOf(http);
      const asking = { signal: http.call.signal, isVisible: await visibleTo(http) };
      const events: Event[] = [];
      let pageToken = "";
      do {
        const page = await listEvents(http.context, { ...filters, pageSize: PAGE_SIZE, pageToken }, asking);
        events.push(...page.events);
        pageToken = page.nextPageToken;
      } while (pageToken !== "" && events.length < PAGE_SIZE);
      return json(events.slice(0, PAGE_SIZE).map(eventObject));
    },
  },
  {
    method: "GET",
    path: "/events/:id",
    operation: "listEvents",
    serve: async (http) => json(eventObject(await eventOf(http))),
  },
];

/** Returns the filter of visible events. Team members see the events of their team's present deployments. */
async function visibleTo({ context, may }: HttpCall): Promise<(event: Pick<Event, "deployment">) => boolean> {
  if (may("listEvents", [])) return () => true;
  const own = await context.tablet.read(
    ({ deployments }) =>
      new Set([...deployments.entries()].filter(({ teams }) => may("listEvents", teams ?? [])).map(({ name }) => name)),
  );
  return ({ deployment }) => own.has(deployment);
}

/** Returns an event; throws NotFoundError for an unknown or expired event. */
async function eventOf(http: HttpCall): Promise<Event> {
  const text = http.param("id");
  const id = /^[1-9]\d{0,14}$/.test(text) ? Number(text) : 0;
  const wanted = { ...NO_FILTERS, beforeId: id + 1, pageSize: 1, pageToken: "" };
  const { events } = id === 0 ? { events: [] } : await listEvents(http.context, wanted);
  const [event] = events;
  if (event?.eventId === id) return event;
  throw new NotFoundError("the event does not exist, or is so old that it was deleted", {
    about: { event_id: text.slice(0, 64) },
  });
}

function filtersOf({ query }: HttpCall) {
  const text = (name: string): string => query.get(name) ?? "";
  return {
    beforeId: numberOf(text("before_id")),
    beforeTime: dateOf(text("before_time")),
    afterTime: dateOf(text("after_time")),
    deployment: text("deployment"),
    taskId: numberOf(text("task")),
    instance: text("instance"),
    user: text("user"),
    action: text("action"),
    objectType: text("object_type"),
    objectName: text("object_name"),
    thing: text("thing"),
    answer: text("answer"),
    requestId: text("request_id"),
  };
}

/** Returns the event without empty fields, as in BOSH. */
function eventObject(event: Event): object {
  const { eventId, parentId, eventTime, taskId, context } = event;
  const fields = {
    id: String(eventId),
    parent_id: parentId === 0 ? "" : String(parentId),
    timestamp: Math.floor((eventTime?.getTime() ?? 0) / 1_000),
    user: event.user,
    action: event.action,
    object_type: event.objectType,
    object_name: event.objectName,
    task: taskId === 0 ? "" : String(taskId),
    deployment: event.deployment,
    instance: event.instance,
    context,
    error: event.error,
    answer: event.answer,
    request_id: event.requestId,
    trace_id: event.traceId,
    authentication:
      event.authentication === Authentication.UNSPECIFIED ? "" : lower("AUTHENTICATION_", event.authentication),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""));
}

function numberOf(text: string): number {
  if (text === "") return 0;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new BadRequestError("before_id and task must be numbers");
}

/** Parses seconds since 1970 or a date. */
function dateOf(text: string): Date | undefined {
  if (text === "") return undefined;
  const date = /^\d{1,11}$/.test(text) ? new Date(Number(text) * 1_000) : new Date(text.slice(0, 64));
  if (!Number.isNaN(date.getTime())) return date;
  throw new BadRequestError("before_time and after_time must be dates, or seconds since 1970");
}
