import { setImmediate } from "node:timers/promises";
import {
  type ListTroublesRequest,
  type ListTroublesResponse,
  SubjectKind,
  type TroubledObject,
} from "@diskmesh/api/common";
import { LIST_LIMITS, parsePageSize, parsePlace, placeToken } from "@diskmesh/rpc";
import type { Context } from "../calls/context.js";
import { SortedSharers } from "../model/devices/sorted-sharers.js";
import type { Subject } from "../model/explain/cause.js";
import { troubleOf } from "../model/explain/explain.js";
import type { RegistryTables } from "../model/store/schema.js";

/** Maximum things explained per turn of the event loop. This number of things takes a few milliseconds. */
const THINGS_AT_ONCE = 1_000;
const LISTED = { what: "troubles" };

type From = { readonly after: string | undefined };
const KINDS: readonly ((tables: RegistryTables, from: From) => Iterable<Subject>)[] = [
  function* hosts(tables, from) {
    for (const { hostId } of tables.hosts.entries(from)) yield { kind: "HOST", name: hostId };
  },
  function* devices(tables, from) {
    for (const { deviceId } of tables.devices.entries(from)) yield { kind: "DEVICE", name: deviceId };
  },
  function* disks(tables, from) {
    for (const { diskId } of tables.disks.entries(from)) yield { kind: "DISK", name: diskId };
  },
];

export async function listTroubles(
  { tablet, known }: Pick<Context, "tablet" | "known">,
  request: ListTroublesRequest,
): Promise<ListTroublesResponse> {
  const size = parsePageSize(request.pageSize, LIST_LIMITS);
  const objects: TroubledObject[] = [];
  let place = request.pageToken === "" ? undefined : parsePlace(request.pageToken, LISTED);
  do {
    await setImmediate();
    place = await tablet.read((tables) => addTroubles(objects, size, place, tables, known));
  } while (place !== undefined && objects.length < size);
  return { objects, nextPageToken: place === undefined ? "" : placeToken(place, LISTED) };
}

/** Explains the next things, and adds those with trouble. Returns the place of the last one; undefined at the end. */
function addTroubles(
  objects: TroubledObject[],
  size: number,
  after: string | undefined,
  tables: RegistryTables,
  known: Context["known"],
): string | undefined {
  const { find: findSharers } = new SortedSharers(tables, known.serialNumbersOfMany);
  let explained = 0;
  let place = after;
  for (const [at, subject] of subjectsAfter(after, tables)) {
    if (explained === THINGS_AT_ONCE || objects.length === size) return place;
    explained++;
    place = `${at} ${subject.name}`;
    const cause = troubleOf(tables, subject, { ...known, findSharers });
    if (cause === undefined) continue;
    const { kind, name } = cause.subject;
    const startTime = cause.sinceMs === undefined ? undefined : new Date(cause.sinceMs);
    objects.push({ subject: { kind: SubjectKind[kind], name }, message: cause.message, startTime, hasEnded: false });
  }
  return undefined;
}

/** Yields things with the number of their kind, in order of kind and name. */
function* subjectsAfter(place: string | undefined, tables: RegistryTables): Generator<[number, Subject]> {
  const [, kind = "0", name] = /^(\d) (.+)$/s.exec(place ?? "") ?? [];
  for (const [at, listed] of KINDS.entries()) {
    if (at < Number(kind)) continue;
    for (const subject of listed(tables, { after: at === Number(kind) ? name : undefined })) yield [at, subject];
  }
}
