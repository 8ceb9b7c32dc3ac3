import { messageOf } from "@diskmesh/domain";
import type { EventEntry, EventsAnswer } from "@diskmesh/page/rows";
import { listEvents, NO_FILTERS } from "../audit/handlers.js";
import type { ExplainContext } from "../explain/context.js";
import { recordedDisk } from "../explain/known.js";
import type { TaskContext } from "../tasks/context.js";
import { ofDirector, ofRegistry } from "./event-entry.js";

const MAX_ENTRIES = 100;

type TimelineContext = Pick<ExplainContext, "tablet" | "registries"> & Pick<TaskContext, "events">;

/** Returns the events of a disk, host or device, newest first, from every source that answers. */
export async function timelineOf(
  context: TimelineContext,
  kind: "disk" | "host" | "device",
  name: string,
): Promise<EventsAnswer> {
  const names = kind === "disk" ? await namesOfDisk(context, name) : [name];
  const filters = { disk: "diskId", host: "hostId", device: "deviceId" } as const;
  const asked: Promise<EventEntry[]>[] = [
    ...names.map((each) => context.registries.eventsOf({ [filters[kind]]: each }).then((all) => all.map(ofRegistry))),
    ...(kind === "device" ? [] : names.map((each) => ownEvents(context, each))),
  ];
  const settled = await Promise.allSettled(asked);
  const entries = settled.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
  const missing = settled.flatMap((each) => (each.status === "rejected" ? [messageOf(each.reason)] : []));
  return { entries: entries.sort((a, b) => b.timeMs - a.timeMs).slice(0, MAX_ENTRIES), missing };
}

/** Returns the disk's user-visible name and its cid. */
function namesOfDisk({ tablet }: TimelineContext, name: string): Promise<string[]> {
  return tablet.read((tables) => {
    const disk = recordedDisk(tables, name);
    const own = disk === undefined ? [] : [disk.diskCid, "name" in disk ? disk.name : ""];
    return [...new Set([name, ...own])].filter(Boolean);
  });
}

async function ownEvents(context: TimelineContext, objectName: string): Promise<EventEntry[]> {
  const { events } = await listEvents(context, {
    ...NO_FILTERS,
    beforeId: 0,
    objectName,
    pageSize: MAX_ENTRIES,
    pageToken: "",
  });
  return events.map(ofDirector);
}
