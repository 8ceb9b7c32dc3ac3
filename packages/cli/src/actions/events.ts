import type { Event as DirectorEvent } from "@diskmesh/api/director";
import type { FleetEvent as RegistryEvent } from "@diskmesh/api/registry";
import { messageOf } from "@diskmesh/domain";
import { cidOfDisk } from "../mesh/disk-names.js";
import type { Mesh } from "../mesh/mesh.js";
import { UsageError } from "../output/exit-codes.js";
import { type Columns, timeText } from "../output/output.js";
import { countOf, timeOf } from "../output/values.js";
import { type Action, type ActionCall, textOption } from "./action.js";

/** An event with its service, in the form for scripts. */
type ListedEvent =
  | ({ readonly service: "director" } & DirectorEvent)
  | ({ readonly service: "disk-registry" } & RegistryEvent);

const COLUMNS: Columns<ListedEvent> = {
  time: ({ eventTime }) => timeText(eventTime),
  user: ({ user }) => user,
  action: ({ action }) => action,
  what: (event) => (event.service === "director" ? whatOf(event) : thingsOf(event).join(" ")),
  result: ({ answer }) => answer,
  request: ({ requestId }) => requestId,
  message: (event) => (event.service === "director" ? event.error : event.message),
};

function whatOf({ objectType, objectName, taskId, deployment, instance }: DirectorEvent): string {
  const place = [instance || deployment, taskId === 0 ? "" : `task ${taskId}`].filter(Boolean).join(", ");
  return `${objectType} ${objectName}`.trim() + (place === "" ? "" : ` (${place})`);
}

function thingsOf({ hostIds, deviceIds, diskIds, more }: RegistryEvent): string[] {
  const named = [["host", hostIds] as const, ["device", deviceIds] as const, ["disk", diskIds] as const];
  return [...named.flatMap(([kind, ids]) => (ids.length === 0 ? [] : [kind, ...ids])), ...(more ? ["..."] : [])];
}

const MAX_LISTED = 1_000;

export const events: Action = {
  usage: "events",
  summary: "list events: who changed which host, device, disk, VM or deployment, and the outcome; newest first",
  options: [
    ["--director", "only events of the director"],
    ["--host <host-id>", "only events of the registry about this host"],
    ["--device <device-id>", "only events of the registry about this device"],
    ["--disk <disk>", "only events of the registry about this disk, by CID, or by name of a dynamic disk"],
    ["--deployment <name>", "only events of the director about this deployment"],
    ["--thing <name>", "only events about the object with this id or name, of any kind"],
    ["--user <name>", "only events of this user"],
    ["--action <action>", "only events of this action"],
    ["--result <answer>", 'only events with this outcome: OK, or a reason such as "NOT_FOUND"'],
    ["--request <id>", "only events of the call with this request id; task-7 for calls of task 7"],
    ["--after <time>", "only events after this time: 15m, 2h or 7d ago, or an instant"],
    ["--limit <count>", `maximum number of events, up to ${MAX_LISTED} (100)`],
  ],
  example: "diskmesh events --thing host-1 --after 2h",
  run: async (call) => {
    const { mesh, output, options } = call;
    const text = (name: string): string => textOption(options, name);
    const after = text("after");
    const limit = countOf("limit", text("limit") || "100", MAX_LISTED);
    const common = {
      user: text("user"),
      action: text("action"),
      thing: text("thing"),
      answer: text("result"),
      requestId: text("request"),
      pageSize: limit,
      ...(after !== "" && { afterTime: timeOf(after, Date.now()) }),
    };
    const about = { hostId: text("host"), deviceId: text("device"), diskId: text("disk") };
    const deployment = text("deployment");
    const ofRegistry = Object.values(about).some((id) => id !== "");
    const ofDirector = deployment !== "" || options.director === true;
    if (ofRegistry && ofDirector)
      throw new UsageError(
        "--host, --device and --disk select events of the registry: leave out --director and --deployment",
      );
    if (about.diskId !== "") about.diskId = await cidOfDisk(mesh, about.diskId);
    const sources = [
      ...(ofRegistry ? [] : [directorEvents(mesh, { ...common, deployment })]),
      ...(ofDirector ? [] : [registryEvents(mesh, { ...common, ...about })]),
    ];
    output.list(COLUMNS, await newestOf(sources, limit, call), "no such events");
  },
};

async function* directorEvents(
  mesh: Mesh,
  request: Parameters<Mesh["events"]["listEvents"]>[0],
): AsyncGenerator<ListedEvent> {
  for (let pageToken = ""; ; ) {
    const page = await mesh.events.listEvents({ ...request, pageToken });
    for (const event of page.events) yield { service: "director", ...event };
    pageToken = page.nextPageToken;
    if (pageToken === "") return;
  }
}

async function* registryEvents(
  mesh: Mesh,
  request: Parameters<Mesh["registry"]["listFleetEvents"]>[0],
): AsyncGenerator<ListedEvent> {
  for (let pageToken = ""; ; ) {
    const page = await mesh.registry.listFleetEvents({ ...request, pageToken });
    for (const event of page.events) yield { service: "disk-registry", ...event };
    pageToken = page.nextPageToken;
    if (pageToken === "") return;
  }
}

/**
 * Merges lists that are sorted newest first. Reports the failure of a service and goes on without it. Throws the
 * failure if no service returned an event.
 */
async function newestOf(
  sources: readonly AsyncGenerator<ListedEvent>[],
  limit: number,
  { output }: Pick<ActionCall, "output">,
): Promise<ListedEvent[]> {
  const failures: unknown[] = [];
  const next = (source: AsyncGenerator<ListedEvent>): Promise<ListedEvent | undefined> =>
    source.next().then(
      ({ value }) => value as ListedEvent | undefined,
      (error: unknown) => {
        failures.push(error);
        return undefined;
      },
    );
  const heads = await Promise.all(sources.map(next));
  const newest: ListedEvent[] = [];
  while (newest.length < limit) {
    const at = indexOfNewest(heads);
    if (at === undefined) break;
    newest.push(heads[at] as ListedEvent);
    heads[at] = await next(sources[at] as AsyncGenerator<ListedEvent>);
  }
  if (failures.length > 0 && newest.length === 0) throw failures[0];
  for (const error of failures) output.say(`the list is incomplete: ${messageOf(error)}`);
  return newest;
}

function indexOfNewest(heads: readonly (ListedEvent | undefined)[]): number | undefined {
  const times = heads.map((head) => head?.eventTime?.getTime() ?? Number.NEGATIVE_INFINITY);
  const latest = Math.max(...times);
  const at = times.indexOf(latest);
  return heads[at] === undefined ? undefined : at;
}
