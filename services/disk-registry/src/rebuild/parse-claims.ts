import type {
  Claim,
  DeviceLabel,
  ExportDiskRequest,
  RememberedRun as RememberedRunMessage,
  RunRecord as RunRecordMessage,
  ServedDisk as ServedDiskMessage,
} from "@diskmesh/api/internal";
import {
  InvalidArgumentError,
  parseAcceptedIoLimits,
  parseDeviceId,
  parseDiskId,
  parseHostId,
  parseId,
  parseOptionalName,
  parseSizeBytes,
  type RunRecord,
} from "@diskmesh/domain";
import type { CarriedLabel, RememberedRun, RunClaim, ServedDisk, ServedExtent } from "../model/rebuild/claims.js";
import { parseCount, parseCounterValue, plainText } from "../requests/requests.js";

const MAX_PATH_LENGTH = 4_096;

export function parseLabel(label: DeviceLabel): CarriedLabel {
  return {
    fleetId: parseId("label.fleet_id", label.fleetId),
    deviceId: parseDeviceId(label.deviceId),
    labelId: parseId("label.label_id", label.labelId),
    sizeBytes: parseSizeBytes("label.size_bytes", label.sizeBytes),
    sliceBytes: parseSizeBytes("label.slice_bytes", label.sliceBytes),
    offsetBytes: parseCount("label.offset_bytes", label.offsetBytes),
  };
}

export function parseClaim(claim: Claim): RunClaim {
  const offsetBytes = parseCount("offset_bytes", claim.offsetBytes);
  const sizeBytes = parseSizeBytes("size_bytes", claim.sizeBytes);
  const { record, diskId } = claim;
  if (record === undefined || diskId === "") return { offsetBytes, sizeBytes, diskId: "", sessionNumber: 0 };
  const sessionNumber = parseCounterValue("session_number", claim.sessionNumber);
  return { offsetBytes, sizeBytes, diskId: parseDiskId(diskId), sessionNumber, record: parseRecord(record, sizeBytes) };
}

function parseRecord(record: RunRecordMessage, runBytes: number): RunRecord {
  const partCount = parseCount("record.part_count", record.partCount, 2 ** 20);
  return {
    diskSizeBytes: parseSizeBytes("record.disk_size_bytes", record.diskSizeBytes),
    blockSizeBytes: parseSizeBytes("record.block_size_bytes", record.blockSizeBytes),
    pool: parseOptionalName("record.pool", record.pool) ?? "default",
    partCount,
    parts: record.parts.map(({ index, offsetBytes, sizeBytes }) => {
      const part = {
        index: parseCount("record.parts.index", index, partCount - 1),
        offsetBytes: parseCount("record.parts.offset_bytes", offsetBytes),
        sizeBytes: parseSizeBytes("record.parts.size_bytes", sizeBytes),
      };
      if (part.offsetBytes + part.sizeBytes <= runBytes) return part;
      throw new InvalidArgumentError(`a record of a run of ${runBytes} bytes names a part that ends behind it`);
    }),
    layout: parseCounterValue("record.layout", record.layout),
    clean: record.clean,
  };
}

/** Parses a remembered session; a size of 0 stands for all bytes up to the device's end. */
export function parseRemembered(run: RememberedRunMessage): RememberedRun {
  const offsetBytes = parseCount("offset_bytes", run.offsetBytes);
  return {
    offsetBytes,
    sizeBytes: parseCount("size_bytes", run.sizeBytes) || Number.MAX_SAFE_INTEGER - offsetBytes,
    sessionNumber: parseCounterValue("session_number", run.sessionNumber),
    diskId: run.diskId === "" ? "" : parseDiskId(run.diskId),
    holderHostId: run.holderHostId === "" || run.ended ? "" : parseHostId(run.holderHostId),
    isErase: run.isErase,
  };
}

export function parseServed({ order, exportPath, fixedSize }: ServedDiskMessage): ServedDisk {
  if (order === undefined) throw new InvalidArgumentError("a served disk has no order");
  const limits = parseAcceptedIoLimits(order.limits);
  const exportKind = kindOf(order);
  return {
    diskId: parseDiskId(order.diskId),
    sessionNumber: parseCounterValue("session_number", order.sessionNumber),
    exportPath: plainText(exportPath, MAX_PATH_LENGTH),
    revision: parseCounterValue("revision", order.revision),
    readOnly: order.readOnly,
    fixedSize,
    ...(exportKind && { exportKind }),
    ...(limits && { limits }),
    extents: order.extents.map((extent): ServedExtent => {
      const { sessionNumber } = extent;
      return {
        deviceId: parseDeviceId(extent.deviceId),
        offsetBytes: parseCount("extents.offset_bytes", extent.offsetBytes),
        sizeBytes: parseSizeBytes("extents.size_bytes", extent.sizeBytes),
        ...(sessionNumber > 0 && { sessionNumber: parseCounterValue("extents.session_number", sessionNumber) }),
      };
    }),
  };
}

const kindOf = ({ exportKind }: ExportDiskRequest): ServedDisk["exportKind"] =>
  exportKind === "EXPORT_KIND_DEVICE" ? "DEVICE" : exportKind === "EXPORT_KIND_NBD" ? "NBD" : undefined;
