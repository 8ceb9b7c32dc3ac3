import type { FleetEvent, ListFleetEventsRequest, ListFleetEventsResponse } from "@diskmesh/api/registry";
import { parseDeviceId, parseDiskId, parseHostId } from "@diskmesh/domain";
import { pageOf } from "@diskmesh/rpc";
import type { Context } from "../calls/context.js";
import { type EventFilter, isAskedFor } from "../model/events/events.js";
import { eventKey, type RegistryEvent } from "../model/store/registry-event.js";
import { eventLimits } from "../requests/limits.js";

export async function listFleetEvents(
  { tablet, config, clock }: Context,
  request: ListFleetEventsRequest,
): Promise<ListFleetEventsResponse> {
  const oldestMs = clock.nowMs() - eventLimits(config).maxAgeMs;
  const filter = parseFilter(request, oldestMs);
  const { items, nextPageToken } = await pageOf(tablet, request, {
    what: "events",
    rows: ({ events }, from) => events.entries(from),
    keyOf: ({ eventId }) => eventKey(eventId),
    matches: (event) => isAskedFor(filter, event),
    describe: (_, event) => eventMessage(event),
  });
  return { events: [...items], nextPageToken };
}

function parseFilter(request: ListFleetEventsRequest, oldestMs: number): EventFilter {
  const { hostId, deviceId, diskId, thing, user, action, answer, requestId, afterTime, beforeTime } = request;
  return {
    hostId: hostId === "" ? undefined : parseHostId(hostId),
    deviceId: deviceId === "" ? undefined : parseDeviceId(deviceId),
    diskId: diskId === "" ? undefined : parseDiskId(diskId),
    thing: thing || undefined,
    user: user || undefined,
    action: action || undefined,
    answer: answer || undefined,
    requestId: requestId || undefined,
    fromMs: Math.max(oldestMs, afterTime?.getTime() ?? 0),
    untilMs: beforeTime?.getTime() ?? Number.POSITIVE_INFINITY,
  };
}

function eventMessage({
  atMs,
  hostIds,
  deviceIds,
  diskIds,
  more,
  routine,
  requestId,
  traceId,
  ...event
}: RegistryEvent): FleetEvent {
  return {
    ...event,
    eventTime: new Date(atMs),
    hostIds: [...hostIds],
    deviceIds: [...deviceIds],
    diskIds: [...diskIds],
    more: more ?? false,
    routine: routine ?? false,
    requestId: requestId ?? "",
    traceId: traceId ?? "",
  };
}
