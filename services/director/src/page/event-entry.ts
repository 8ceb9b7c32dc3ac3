import type { Event as OwnEvent } from "@diskmesh/api/director";
import type { FleetEvent as RegistryEvent } from "@diskmesh/api/registry";
import type { EventEntry, ThingName } from "@diskmesh/page/rows";

/** Maximum objects of an event with a link. */
const MAX_THINGS = 12;
/** Types of the director's objects that the page shows under their own name. */
const LINKED = ["disk", "host", "task"];

export function ofDirector(event: OwnEvent): EventEntry {
  const {
    eventTime,
    user,
    action,
    objectType,
    objectName,
    taskId,
    deployment,
    instance,
    context,
    error,
    answer,
    parentId,
  } = event;
  const isLinked = LINKED.includes(objectType) && objectName !== "";
  const things = [
    ...(isLinked ? [{ kind: objectType, name: objectName }] : []),
    ...(taskId === 0 || objectType === "task" ? [] : [{ kind: "task", name: String(taskId) }]),
  ];
  const where = [instance || deployment, context.disk_name && `disk ${context.disk_name}`].filter(Boolean).join(", ");
  return {
    id: `director ${event.eventId}`,
    timeMs: eventTime?.getTime() ?? 0,
    who: user,
    what: [action, objectType, isLinked || objectName === deployment ? "" : objectName].filter(Boolean).join(" "),
    things,
    message: [error, where, parentId !== 0 && answer === "OK" ? "done" : ""].filter(Boolean).join("; "),
    isFailure: error !== "",
  };
}

/** `name` is the registry's display name. */
export function ofRegistry(
  name: string,
  { eventId, eventTime, user, action, answer, message, more, ...about }: RegistryEvent,
): EventEntry {
  const named = (kind: string, names: readonly string[]): ThingName[] => names.map((name) => ({ kind, name }));
  const things = [
    ...named("disk", about.diskIds),
    ...named("host", about.hostIds),
    ...named("device", about.deviceIds),
  ];
  const unnamed = things.length > MAX_THINGS ? `and ${things.length - MAX_THINGS} more` : more ? "and more" : "";
  const isFine = answer === "" || answer === "OK" || answer === "S_OK";
  return {
    id: `${name} ${eventId}`,
    timeMs: eventTime?.getTime() ?? 0,
    who: user,
    what: action,
    things: things.slice(0, MAX_THINGS),
    message: [isFine ? "" : answer, message, unnamed].filter(Boolean).join("; "),
    isFailure: !isFine && answer !== "E_TRY_AGAIN",
  };
}
