import type { CreateDiskRequest, CreateDiskResponse } from "@diskmesh/api/registry";
import {
  type HostId,
  InvalidArgumentError,
  parseDiskId,
  parseHostId,
  parseIoLimits,
  parseOptionalName,
  parseSizeBytes,
} from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { describeChangedDisk } from "../../calls/device-description.js";
import { makingRoom } from "../../calls/making-room.js";
import { createDisk as create } from "../../model/disks/disks.js";
import type { DiskRequest } from "../../model/store/schema.js";
import { diskLimits } from "../../requests/limits.js";
import { parseLabels } from "../../requests/requests.js";
import { exportKindOf, silenceRuleOf } from "../../requests/wire.js";

export async function createDisk(context: ChangeContext, request: CreateDiskRequest): Promise<CreateDiskResponse> {
  const { tablet, limits, clock, liveness } = context;
  const diskId = parseDiskId(request.diskId);
  const wanted = parseRequest(request);
  const nearHostId: HostId | "" = request.nearHostId === "" ? "" : parseHostId(request.nearHostId, "near_host_id");
  const { whySuspected, mayYetBeHeard } = liveness;
  const now = { nowMs: clock.nowMs(), draw: context.random(), whySuspected, mayYetBeHeard, nearHostId };
  const properties = {
    labels: parseLabels(request.labels, limits),
    limits: parseIoLimits(request.limits),
    exportKind: exportKindOf(request.exportKind),
    onHostSilence: silenceRuleOf(request.onHostSilence),
  };
  const disk = await makingRoom(context, () =>
    tablet.transact((tx) =>
      describeChangedDisk(context, tx, create(tx, diskId, wanted, properties, diskLimits(context), now)),
    ),
  );
  return { disk };
}

function parseRequest(request: CreateDiskRequest): DiskRequest {
  const az = parseOptionalName("az", request.az) ?? "";
  const hostId = request.hostId === "" ? "" : parseHostId(request.hostId);
  if (az === "" && hostId === "") {
    throw new InvalidArgumentError("az and host_id are both empty: give at least one of them", {
      about: { field: "az" },
    });
  }
  if (request.copies < 0 || request.copies > 1) {
    throw new InvalidArgumentError(
      `copies is ${request.copies}: disks of several copies are not yet available, so leave it out or give 1`,
      { about: { field: "copies" } },
    );
  }
  return {
    sizeBytes: parseSizeBytes("size_bytes", request.sizeBytes),
    az,
    hostId,
    pool: parseOptionalName("pool", request.pool) ?? "default",
    spreadRacks: request.spreadRacks,
  };
}
