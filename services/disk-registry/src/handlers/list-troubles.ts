import { setImmediate } from "node:timers/promises";
import { type ListTroublesResponse, SubjectKind } from "@diskmesh/api/common";
import type { Context } from "../calls/context.js";
import { SortedSharers } from "../model/devices/sorted-sharers.js";
import type { Cause, Subject } from "../model/explain/cause.js";
import { troubleOf } from "../model/explain/explain.js";

const MAX_LISTED = 10_000;
/** Maximum things explained per turn of the event loop. This number of things takes a few milliseconds. */
const THINGS_AT_ONCE = 1_000;

export async function listTroubles({
  tablet,
  known,
}: Pick<Context, "tablet" | "known">): Promise<ListTroublesResponse> {
  const subjects = await tablet.read((tables): Subject[] => [
    ...Array.from(tables.hosts.entries(), ({ hostId }) => ({ kind: "HOST", name: hostId }) as const),
    ...Array.from(tables.devices.entries(), ({ deviceId }) => ({ kind: "DEVICE", name: deviceId }) as const),
    ...Array.from(tables.disks.entries(), ({ diskId }) => ({ kind: "DISK", name: diskId }) as const),
  ]);
  const causes: Cause[] = [];
  for (let first = 0; first < subjects.length; first += THINGS_AT_ONCE) {
    await setImmediate();
    const found = await tablet.read((tables) => {
      const { find: findSharers } = new SortedSharers(tables, known.serialNumbersOfMany);
      const some = subjects.slice(first, first + THINGS_AT_ONCE);
      return some.flatMap((subject) => troubleOf(tables, subject, { ...known, findSharers }) ?? []);
    });
    causes.push(...found);
  }
  const objects = causes.slice(0, MAX_LISTED).map(({ subject: { kind, name }, message, sinceMs }) => ({
    subject: { kind: SubjectKind[kind], name },
    message,
    startTime: sinceMs === undefined ? undefined : new Date(sinceMs),
    hasEnded: false,
  }));
  return { objects, more: causes.length - objects.length };
}
