import { SubjectKind } from "@diskmesh/api/common";
import { NotFoundError } from "@diskmesh/domain";
import type {
  DeviceItem,
  EventsAnswer,
  HostPanelAnswer,
  JournalAnswer,
  PartsAnswer,
  TaskPanelAnswer,
  WhyAnswer,
} from "@diskmesh/page/rows";
import { msOfDuration } from "@diskmesh/rpc";
import { explain } from "../../explain/handlers.js";
import { docsText } from "../../page/docs.js";
import { eventsOf } from "../../page/events.js";
import { pageFiles } from "../../page/files.js";
import { lower } from "../../page/fleet-rows.js";
import { diskPanel, hostPanel, journalAnswer, servicePanel } from "../../page/panels.js";
import { ownSourceRow } from "../../page/source-row.js";
import { taskPanel } from "../../page/task-panel.js";
import { parseTaskId } from "../../tasks/parse.js";
import type { Answer } from "../answer.js";
import { BadRequestError } from "../http-error.js";
import { data, JSON_HEADERS, PAGE_HEADERS } from "../page-answer.js";
import type { HttpCall, Route } from "../route.js";
import { pageActions } from "./page-actions.js";

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
    path: "/page/overview",
    operation: "seePage",
    serve: overviewAnswer,
  },
  {
    method: "GET",
    path: "/page/self",
    operation: "seePage",
    isOwn: "without a leader",
    serve: async ({ report }) => data(ownSourceRow(report())),
  },
  { method: "GET", path: "/page/why", operation: "seePage", serve: async (http) => data(await whyOf(http)) },
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
  { method: "GET", path: "/page/task", operation: "seePage", serve: async (http) => data(await taskFor(http)) },
  { method: "GET", path: "/page/host", operation: "seePage", serve: async (http) => data(await hostFor(http)) },
  { method: "GET", path: "/page/journal", operation: "seePage", serve: async (http) => data(await journalFor(http)) },
  {
    method: "GET",
    path: "/page/service",
    operation: "seePage",
    serve: async (http) => data(await servicePanel(http.context, queried(http, "name"), http.call)),
  },
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
  const body = docsText(path);
  if (body === undefined) throw new NotFoundError("there is no such page of the documentation here");
  return { status: 200, headers: { ...PAGE_HEADERS, "content-type": "text/plain; charset=utf-8" }, body };
}

/** Returns the rows that changed since the answer whose `since` is given; all rows without one. */
async function overviewAnswer({ context, query }: HttpCall): Promise<Answer> {
  const body = await context.overview.changedSince(query.get("since") ?? "");
  return { status: 200, headers: JSON_HEADERS, body };
}

function queried({ query }: HttpCall, name: string): string {
  const value = query.get(name) ?? "";
  if (value !== "" && value.length <= 512) return value;
  throw new BadRequestError(`query parameter ${name} must have 1 to 512 characters`);
}

/** Returns the devices of a host, or one device. */
async function devicesFor(http: HttpCall): Promise<DeviceItem[]> {
  const { registries } = http.context;
  if (http.query.has("host")) return registries.devicesOf(queried(http, "host"));
  return registries.deviceById(queried(http, "device"));
}

async function hostFor(http: HttpCall): Promise<HostPanelAnswer> {
  const host = await http.context.registries.hostById(queried(http, "name"), http.call);
  if (host === undefined) throw new NotFoundError("no disk-registry of nodes.registries has this host");
  return hostPanel(host);
}

async function partsFor(http: HttpCall): Promise<PartsAnswer> {
  const { parts, devices, disk } = await http.context.registries.partsOfDisk(queried(http, "disk"));
  const shown = parts.map(({ move, ...part }) => ({
    ...part,
    move: move && { ...move, remainingMs: msOfDuration(move.remainingDuration) },
  }));
  return { parts: shown, devices, ...(disk && diskPanel(disk)) };
}

async function taskFor(http: HttpCall): Promise<TaskPanelAnswer> {
  const { context } = http;
  return taskPanel(context, await context.tasks.get(parseTaskId(Number(queried(http, "id")))));
}

/** Number of changes that a panel shows. */
const MAX_CHANGES = 50;

async function journalFor(http: HttpCall): Promise<JournalAnswer> {
  const asked = queried(http, "kind");
  const kind = (["host", "device", "disk"] as const).find((each) => each === asked);
  if (kind === undefined) throw new BadRequestError("kind must be one of host, device, disk");
  const request = { [`${kind}Id`]: queried(http, "name"), pageSize: MAX_CHANGES };
  const answer = await http.context.registries.changesOf(request, http.call);
  if (answer === undefined) throw new NotFoundError(`no disk-registry of nodes.registries has this ${kind}`);
  return journalAnswer(answer);
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
    isBrief: http.query.has("brief"),
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
    causes: answer.causes.map(({ subject: about, reason, message, startTime, nextAttemptTime, cures }) => ({
      kind: about?.kind === SubjectKind.SERVICE ? "source" : lower("SUBJECT_KIND_", about?.kind ?? ""),
      name: about?.name ?? "",
      reason,
      message,
      cures: cures.map(({ what, command }) => ({ what, command })),
      ...(startTime !== undefined && { sinceMs: startTime.getTime() }),
      ...(nextAttemptTime !== undefined && { nextTryAtMs: nextAttemptTime.getTime() }),
    })),
  };
}
