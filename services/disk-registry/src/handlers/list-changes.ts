import type { ListChangesRequest, ListChangesResponse, ObjectChange } from "@diskmesh/api/registry";
import { InvalidArgumentError, NotFoundError, parseDeviceId, parseDiskId, parseHostId } from "@diskmesh/domain";
import { type CallContext, LIST_LIMITS, parsePageSize, parsePlace, placeToken } from "@diskmesh/rpc";
import type { CommitPlace } from "@diskmesh/tablet";
import type { Context } from "../calls/context.js";
import { LastChanges, type ToldChange } from "../model/events/past-changes.js";

export async function listChanges(
  { tablet }: Context,
  request: ListChangesRequest,
  { signal }: CallContext,
): Promise<ListChangesResponse> {
  const { table, key } = objectOf(request);
  const asked = { what: "changes", table, key };
  const before = request.pageToken === "" ? undefined : placeOf(parsePlace(request.pageToken, asked));
  const last = new LastChanges(parsePageSize(request.pageSize, LIST_LIMITS));
  const isKnown = await tablet.read((tables) => tables[table].has(key));
  const kept = await tablet.pastChanges({ table, key, before, signal }, (change) => last.add(change));
  const { changes, olderThan } = last.end(kept?.isComplete ?? false);
  if (!isKnown && changes.length === 0 && before === undefined)
    throw new NotFoundError(`no ${table.slice(0, -1)} has the id ${key}, and no change of it is kept`);
  return {
    changes: changes.map(changeMessage),
    nextPageToken: olderThan === undefined ? "" : placeToken(textOf(olderThan), asked),
    areKept: kept !== undefined,
    isComplete: kept?.isComplete ?? false,
    keptFromTime: kept?.sinceMs === undefined ? undefined : new Date(kept.sinceMs),
  };
}

function objectOf({ hostId, deviceId, diskId }: ListChangesRequest) {
  const named = [hostId, deviceId, diskId].filter((id) => id !== "");
  if (named.length !== 1)
    throw new InvalidArgumentError("exactly one of host_id, device_id and disk_id must be set", {
      about: { field: "host_id" },
    });
  if (hostId !== "") return { table: "hosts", key: parseHostId(hostId) } as const;
  if (deviceId !== "") return { table: "devices", key: parseDeviceId(deviceId) } as const;
  return { table: "disks", key: parseDiskId(diskId) } as const;
}

function textOf({ journal, at }: CommitPlace): string {
  return `${journal}:${at}`;
}

function placeOf(text: string): CommitPlace {
  const [journal = 0, at = 0] = text.split(":").map(Number);
  return { journal, at };
}

function changeMessage({ commit, atMs, cause, details }: ToldChange): ObjectChange {
  return {
    commit: textOf(commit),
    commitTime: atMs === undefined ? undefined : new Date(atMs),
    cause: cause ?? "",
    details: [...details],
  };
}
