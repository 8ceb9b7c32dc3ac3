import { Readable } from "node:stream";
import { SubjectKind } from "@diskmesh/api/common";
import { NotFoundError } from "@diskmesh/domain";
import type { DeviceItem, EventsAnswer, PartItem, WhyAnswer } from "@diskmesh/page/rows";
import { explain } from "../../explain/handlers.js";
import { docsPage } from "../../page/docs.js";
import { eventsOf } from "../../page/events.js";
import { pageFiles } from "../../page/files.js";
import { deviceItem, lower, partItems } from "../../page/fleet-rows.js";
import { ownSourceRow } from "../../page/source-row.js";
import { timelineOf } from "../../page/timeline.js";
import type { Answer } from "../answer.js";
import { BadRequestError } from "../http-error.js";
import { DATA_HEADERS, data, PAGE_HEADERS } from "../page-answer.js";
import type { HttpCall, Route } from "../route.js";
import { pageActions } from "./page-actions.js";

/** Time after which a browser that reads no pending events is disconnected. */
const STALLED_MS = 60_000;

/** The page's static files. They contain no data and are served before login. */
export const pageRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/page",
    operation: undefined,
    isOwn: true,
    isOpen: true,
    isLinkable: true,
    serve: async (http) => fileAnswer(http, "page.html"),
  },
  {
    method: "GET",
    path: "/page/files/:name",
    operation: undefined,
    isOwn: true,
    isOpen: true,
    serve: async (http) => fileAnswer(http, http.param("name")),
  },
  {
    method: "GET",
    path: "/page/docs/*",
    operation: "seePage",
    isOwn: "without a leader",
    serve: async (http) => docsAnswer(http.param("*")),
  },
  {
    method: "GET",
    path: "/page/feed",
    operation: "seePage",
    // A route that streams has no time limit, which the feed needs. The request has no body to stream.
    streams: true,
    serve: async (http) => feedAnswer(http),
  },
  {
    method: "GET",
    path: "/page/self",
    operation: "seePage",
    isOwn: "without a leader",
    serve: async ({ report }) => data(ownSourceRow(report())),
  },
  { method: "GET", path: "/page/why", operation: "seePage", serve: async (http) => data(await whyOf(http)) },
  {
    method: "GET",
    path: "/page/timeline",
    operation: "seePage",
    serve: async (http) => {
      const kind = queried(http, "kind");
      if (kind !== "disk" && kind !== "host" && kind !== "device")
        throw new BadRequestError("kind must be one of disk, host, device");
      return data(await timelineOf(http.context, kind, queried(http, "name")));
    },
  },
  { method: "GET", path: "/page/events", operation: "seePage", serve: async (http) => data(await eventsFor(http)) },
  {
    method: "GET",
    path: "/page/activity",
    operation: "seePage",
    serve: async ({ context, query }) =>
      data(context.activity.after(timeOf("after", query.get("after"))?.getTime() ?? 0)),
  },
  { method: "GET", path: "/page/devices", operation: "seePage", serve: async (http) => data(await devicesFor(http)) },
  { method: "GET", path: "/page/parts", operation: "seePage", serve: async (http) => data(await partsFor(http)) },
  ...pageActions,
];

function fileAnswer({ request }: HttpCall, name: string): Answer {
  const file = pageFiles().get(name);
  if (file === undefined) throw new NotFoundError("the page has no such file");
  const { type, etag, text } = file;
  const headers = { ...PAGE_HEADERS, "content-type": type, etag, "cache-control": "no-cache" };
  return request.headers["if-none-match"] === etag ? { status: 304, headers } : { status: 200, headers, body: text };
}

function docsAnswer(path: string): Answer {
  const body = docsPage(path);
  if (body === undefined) throw new NotFoundError("there is no such page of the documentation here");
  return { status: 200, headers: { ...PAGE_HEADERS, "content-type": "text/html; charset=utf-8" }, body };
}

function feedAnswer({ context, call, login, request }: HttpCall): Answer {
  if (!(request.headers.accept ?? "").includes("text/event-stream"))
    throw new BadRequestError("this address serves events to browsers: accept text/event-stream");
  request.raw.socket.setTimeout(STALLED_MS);
  const { name, session } = login;
  const ended = session === undefined ? [] : [AbortSignal.timeout(Math.max(0, session.endsAtMs - Date.now()))];
  const events = context.feed.open(
    { login: name, session: session?.sessionId },
    AbortSignal.any([call.signal, ...ended]),
  );
  const body = Readable.from(events, { highWaterMark: 1 });
  return { status: 200, headers: { ...DATA_HEADERS, "content-type": "text/event-stream" }, body };
}

function queried({ query }: HttpCall, name: string): string {
  const value = query.get(name) ?? "";
  if (value !== "" && value.length <= 512) return value;
  throw new BadRequestError(`query parameter ${name} must have 1 to 512 characters`);
}

/** Returns the devices of a host, or one device. */
async function devicesFor(http: HttpCall): Promise<DeviceItem[]> {
  const { registries } = http.context;
  if (http.query.has("host")) return (await registries.devicesOf(queried(http, "host"))).map(deviceItem);
  return (await registries.deviceById(queried(http, "device"))).map(deviceItem);
}

async function partsFor(http: HttpCall): Promise<PartItem[]> {
  const { parts, devices } = await http.context.registries.partsOfDisk(queried(http, "disk"));
  return partItems(parts, devices);
}

function timeOf(name: string, value: string | null): Date | undefined {
  if (value === null || value === "") return undefined;
  if (/^\d{1,15}$/.test(value)) return new Date(Number(value));
  throw new BadRequestError(`query parameter ${name} must be a time in ms since 1970`);
}

function eventsFor(http: HttpCall): Promise<EventsAnswer> {
  const text = (name: string): string => (http.query.get(name) ? queried(http, name) : "");
  const time = (name: string): Date | undefined => timeOf(name, http.query.get(name));
  const filters = {
    thing: text("thing"),
    user: text("user"),
    action: text("action"),
    answer: text("answer"),
    afterTime: time("after"),
    beforeTime: time("before"),
  };
  return eventsOf(http.context, filters, http.call.signal);
}

async function whyOf(http: HttpCall): Promise<WhyAnswer> {
  const { context, call } = http;
  const asked = queried(http, "kind").toUpperCase();
  const name = queried(http, "name");
  const kinds = ["HOST", "DEVICE", "DISK", "POOL", "TASK", "LOCK", "VM"] as const;
  const kind = kinds.find((each) => each === asked);
  if (kind === undefined) throw new BadRequestError(`kind must be one of ${kinds.join(", ").toLowerCase()}`);
  const answer = await explain(context, { subject: { kind: SubjectKind[kind], name } }, call);
  return {
    summary: answer.summary,
    causes: answer.causes.map(({ subject: about, reason, message, since, nextTryAt, cures }) => ({
      kind: about?.kind === SubjectKind.SERVICE ? "source" : lower("SUBJECT_KIND_", about?.kind ?? ""),
      name: about?.name ?? "",
      reason,
      message,
      cures: cures.map(({ what, command }) => ({ what, command })),
      ...(since !== undefined && { sinceMs: since.getTime() }),
      ...(nextTryAt !== undefined && { nextTryAtMs: nextTryAt.getTime() }),
    })),
  };
}
