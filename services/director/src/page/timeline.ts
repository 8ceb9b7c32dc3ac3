import type { Event as OwnEvent } from "@diskmesh/api/director";
import type { Event as RegistryEvent } from "@diskmesh/api/registry";
import { messageOf } from "@diskmesh/domain";
import type { TimelineAnswer, TimelineEntry } from "@diskmesh/page/rows";
import { listEvents, NO_FILTERS } from "../audit/handlers.js";
import type { ExplainContext } from "../explain/context.js";
import { recordedDisk } from "../explain/known.js";
import type { TaskContext } from "../tasks/context.js";

const MAX_ENTRIES = 100;

type TimelineContext = Pick<ExplainContext, "tablet" | "registries"> & Pick<TaskContext, "events">;

/** Returns the events of a disk, host or device, newest first, from every source that answers. */
export async function timelineOf(
  context: TimelineContext,
  kind: "disk" | "host" | "device",
  name: string,
): Promise<TimelineAnswer> {
  const names = kind === "disk" ? await namesOfDisk(context, name) : [name];
  const filters = { disk: "diskId", host: "hostId", device: "deviceId" } as const;
  const asked: Promise<TimelineEntry[]>[] = [
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

async function ownEvents(context: TimelineContext, objectName: string): Promise<TimelineEntry[]> {
  const { events } = await listEvents(context, {
    ...NO_FILTERS,
    beforeId: 0,
    objectName,
    pageSize: MAX_ENTRIES,
    pageToken: "",
  });
  return events.map(ofDirector);
}

function ofDirector({ time, user, action, objectType, taskId, instance, error, parentId }: OwnEvent): TimelineEntry {
  const where = [taskId === 0 ? "" : `task ${taskId}`, instance].filter(Boolean).join(", ");
  return {
    timeMs: time?.getTime() ?? 0,
    who: user,
    what: `${action} ${objectType}`,
    message: [error, where].filter(Boolean).join("; ") || (parentId === 0 ? "" : "begun"),
    isFailure: error !== "",
  };
}

function ofRegistry({ time, user, action, answer, message, hostIds }: RegistryEvent): TimelineEntry {
  const where = hostIds.length === 0 ? "" : `on ${hostIds.join(", ")}`;
  const isFine = answer === "" || answer === "OK" || answer === "S_OK";
  return {
    timeMs: time?.getTime() ?? 0,
    who: user,
    what: action,
    message: [isFine ? "" : answer, message, where].filter(Boolean).join("; "),
    isFailure: !isFine && answer !== "E_TRY_AGAIN",
  };
}
