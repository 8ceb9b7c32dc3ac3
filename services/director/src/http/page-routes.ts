import { Readable } from "node:stream";
import { SubjectKind } from "@diskmesh/api/common";
import { HostState } from "@diskmesh/api/registry";
import { formatIdentity, NotFoundError } from "@diskmesh/domain";
import type { ActionAnswer, DeviceItem, WhyAnswer } from "@diskmesh/page/rows";
import { cancelTask } from "../handlers/cancel-task.js";
import { explain } from "../handlers/explain.js";
import { getTask } from "../handlers/get-task.js";
import { resumeTask } from "../handlers/resume-task.js";
import { pageFiles } from "../page/files.js";
import { lower, troubleOfDevice } from "../page/fleet-rows.js";
import { timelineOf } from "../page/timeline.js";
import { type Answer, json } from "./answer.js";
import { bodyObject } from "./body.js";
import { BadRequestError } from "./http-error.js";
import type { HttpCall, Route } from "./route.js";

/** Nothing but what this director serves itself, and no page of anybody else's around it. */
const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "x-frame-options": "DENY",
};
const DATA_HEADERS = { ...PAGE_HEADERS, "cache-control": "no-store" };

/** So long a browser may take nothing of the events that wait for it. */
const STALLED_MS = 60_000;
const MAX_REASON_LENGTH = 500;

export const pageRoutes: readonly Route[] = [
  { method: "GET", path: "/page", operation: "seePage", serve: async (http) => fileAnswer(http, "page.html") },
  {
    method: "GET",
    path: "/page/files/:name",
    operation: "seePage",
    serve: async (http) => fileAnswer(http, http.param("name")),
  },
  {
    method: "GET",
    path: "/page/feed",
    operation: "seePage",
    // It lasts, and has no body.
    streams: true,
    serve: async (http) => feedAnswer(http),
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
  {
    method: "GET",
    path: "/page/devices",
    operation: "seePage",
    serve: async (http) => {
      const devices = await http.context.registries.devicesOf(queried(http, "host"));
      return data(
        devices.map((device): DeviceItem => {
          const { deviceId: id, attachState, health, diskId: disk, sizeBytes } = device;
          const state = lower("ATTACH_STATE_", attachState);
          return { id, state, health: lower("HEALTH_", health), disk, sizeBytes, note: troubleOfDevice(device) };
        }),
      );
    },
  },
  { method: "POST", path: "/page/hosts/:name/state", operation: "setHostState", serve: acting(setHostState) },
  { method: "POST", path: "/page/hosts/:name/fence", operation: "fenceHost", serve: acting(fenceHost) },
  { method: "POST", path: "/page/tasks/:name/cancel", operation: "cancelTask", serve: acting(cancelOne) },
  { method: "POST", path: "/page/tasks/:name/resume", operation: "resumeTask", serve: acting(resumeOne) },
];

function fileAnswer({ request }: HttpCall, name: string): Answer {
  const file = pageFiles().get(name);
  if (file === undefined) throw new NotFoundError("the page has no such file");
  const { type, etag, text } = file;
  const headers = { ...PAGE_HEADERS, "content-type": type, etag, "cache-control": "no-cache" };
  return request.headers["if-none-match"] === etag ? { status: 304, headers } : { status: 200, headers, body: text };
}

function data(value: unknown): Answer {
  const answer = json(value);
  return { ...answer, headers: { ...DATA_HEADERS, ...answer.headers } };
}

function feedAnswer({ context, call, request }: HttpCall): Answer {
  if (!(request.headers.accept ?? "").includes("text/event-stream"))
    throw new BadRequestError("this is for browsers: ask for text/event-stream");
  request.raw.socket.setTimeout(STALLED_MS);
  const body = Readable.from(context.feed.open(call.signal), { highWaterMark: 1 });
  return { status: 200, headers: { ...DATA_HEADERS, "content-type": "text/event-stream" }, body };
}

function queried({ query }: HttpCall, name: string): string {
  const value = query.get(name) ?? "";
  if (value !== "" && value.length <= 512) return value;
  throw new BadRequestError(`give a ${name} of at most 512 characters`);
}

async function whyOf(http: HttpCall): Promise<WhyAnswer> {
  const { context } = http;
  const asked = queried(http, "kind").toUpperCase();
  const name = queried(http, "name");
  const kinds = ["HOST", "DEVICE", "DISK", "TASK", "LOCK", "VM"] as const;
  const kind = kinds.find((each) => each === asked);
  if (kind === undefined) throw new BadRequestError("kind must be one of host, device, disk, task, lock, vm");
  const subject = { kind: SubjectKind[kind], name };
  const isFleets = kind === "HOST" || kind === "DEVICE";
  const answer = await (isFleets ? context.registries.explain(subject) : explain(context, { subject }));
  if (answer === undefined) throw new NotFoundError(`there is no ${kind.toLowerCase()} ${name}`);
  return {
    summary: answer.summary,
    causes: answer.causes.map(({ subject: about, reason, message, since, nextTryAt, cures }) => ({
      kind: lower("SUBJECT_KIND_", about?.kind ?? ""),
      name: about?.name ?? "",
      reason,
      message,
      cures: cures.map(({ what, command }) => ({ what, command })),
      ...(since !== undefined && { sinceMs: since.getTime() }),
      ...(nextTryAt !== undefined && { nextTryAtMs: nextTryAt.getTime() }),
    })),
  };
}

interface Wanted {
  readonly name: string;
  readonly isDry: boolean;
  readonly reason: string;
  readonly state: string;
}

type Act = (http: HttpCall, wanted: Wanted) => Promise<readonly string[]>;

/** Of what the page itself asks for alone: a form of another site can send neither the header nor JSON. */
function acting(act: Act): Route["serve"] {
  return async (http) => {
    checkOrigin(http);
    const body = bodyObject(http.request);
    const reason = body.optionalText("reason") ?? "";
    if (reason.length > MAX_REASON_LENGTH)
      throw new BadRequestError(`the reason is longer than ${MAX_REASON_LENGTH} characters`);
    const wanted = { name: http.param("name"), isDry: body.flag("dry_run"), reason, state: body.optionalText("state") };
    const lines = await act(http, { ...wanted, state: wanted.state ?? "" });
    return data({ lines } satisfies ActionAnswer);
  };
}

function checkOrigin({ request: { headers } }: HttpCall): void {
  const { origin, host } = headers;
  const site = headers["sec-fetch-site"];
  if (headers["x-diskmesh-page"] !== "1" || !(headers["content-type"] ?? "").startsWith("application/json"))
    throw new BadRequestError("actions are for the page: give X-Diskmesh-Page: 1 and JSON");
  const isElsewhere =
    (origin !== undefined && origin !== `https://${host}`) || (site ?? "same-origin") !== "same-origin";
  if (isElsewhere) throw new BadRequestError("a page of another site may not act here");
}

/** The registry knows this director alone: who asked it stands in the reason. */
const told = ({ call }: HttpCall, reason: string): string =>
  `${formatIdentity(call.identity)}${reason === "" ? "" : `: ${reason}`}`;

async function setHostState(http: HttpCall, { name, isDry, reason, state }: Wanted): Promise<readonly string[]> {
  if (state !== "dead" && state !== "online") throw new BadRequestError("state must be dead or online");
  if (state === "dead" && reason === "") throw new BadRequestError("say why: give a reason");
  const wanted = state === "dead" ? HostState.DEAD : HostState.ONLINE;
  const request = { hostIds: [name], state: wanted, reason: told(http, reason), dryRun: isDry };
  const answer = await http.context.registries.setHostState(request);
  if (answer.changedHostIds.length === 0) return [`${name} is so already: nothing changes`];
  const { devices, disksOnDevices, publications, vms } = answer;
  const effect =
    state === "dead"
      ? `${disksOnDevices} disks with a part on its ${devices} devices cannot be published while it is dead`
      : "it is unavailable until its agent registers";
  const more = [`${publications} disks are published to it: they stay its own until it is fenced`];
  return [`${name} is said to be ${state}`, effect, ...more, vms > 0 ? "it serves as a VM" : ""].filter(Boolean);
}

async function fenceHost(http: HttpCall, { name, isDry, reason }: Wanted): Promise<readonly string[]> {
  const { disks } = await http.context.registries.fenceHost({
    hostId: name,
    reason: told(http, reason),
    dryRun: isDry,
  });
  if (disks.length === 0) return [`${name} holds no disk: nothing changes`];
  return [
    `${disks.length} disks are taken from ${name} for good; it serves none of them again by itself`,
    ...disks.slice(0, 20).map(({ diskId, complete, unaskedDeviceCount }) => {
      const waits = `${unaskedDeviceCount} of its devices have not answered yet`;
      return `${diskId}${isDry ? "" : complete ? ": done" : `: ${waits}`}`;
    }),
    ...(disks.length > 20 ? [`and ${disks.length - 20} more`] : []),
  ];
}

async function cancelOne(http: HttpCall, { name, isDry }: Wanted): Promise<readonly string[]> {
  const taskId = Number(name);
  const { task } = await getTask(http.context, { taskId });
  if (!isDry) await cancelTask(http.context, { taskId }, http.call);
  return [
    `task ${name} (${task?.description}) is asked to stop`,
    "CPI calls that it waits for are ended within seconds; what is done by then stays done",
  ];
}

async function resumeOne(http: HttpCall, { name, isDry }: Wanted): Promise<readonly string[]> {
  const taskId = Number(name);
  const { task } = await getTask(http.context, { taskId });
  if (!isDry) await resumeTask(http.context, { taskId });
  return [`task ${name} (${task?.description}) runs on`, "what was done of it since the backup is not known"];
}
