import {
  type DeviceLabel as DeviceLabelMessage,
  LabelState,
  type ReportedDevice,
  type WriteLabelRequest,
} from "@diskmesh/api/internal";
import { InvalidArgumentError, parseDeviceId, parseId, parseSizeBytes } from "@diskmesh/domain";
import { type DeviceLabel, LABEL_BYTES, type LabelFinding } from "../model/label.js";
import type { DeviceRun } from "../model/runs.js";

/** Parses the bytes that are kept for the label. */
export function parseLabelRun({ deviceId, sizeBytes }: WriteLabelRequest): DeviceRun {
  const run = { deviceId: parseDeviceId(deviceId), offsetBytes: 0, sizeBytes: parseSizeBytes("size_bytes", sizeBytes) };
  if (sizeBytes >= LABEL_BYTES) return run;
  throw malformed("size_bytes", `is ${sizeBytes}: it must be at least ${LABEL_BYTES}`);
}

export function parseLabel(label: DeviceLabelMessage): DeviceLabel {
  const { fleetId, deviceId, labelId, sizeBytes, sliceBytes, offsetBytes } = label;
  if (offsetBytes < 0) throw malformed("offset_bytes", `is ${offsetBytes}: it must be at least 0`);
  return {
    fleetId: parseId("label.fleet_id", fleetId),
    deviceId: parseDeviceId(deviceId, "label.device_id"),
    labelId: parseLabelId("label.label_id", labelId),
    sizeBytes: parseSizeBytes("label.size_bytes", sizeBytes),
    sliceBytes: parseSizeBytes("label.slice_bytes", sliceBytes),
    offsetBytes,
  };
}

export function parseLabelId(field: string, labelId: string): string {
  if (/^[0-9a-f]{32}$/.test(labelId)) return labelId;
  throw new InvalidArgumentError(`${field} must be 32 lower-case hex digits`, { about: { field } });
}

function malformed(field: string, why: string): InvalidArgumentError {
  return new InvalidArgumentError(`${field} of the label ${why}`, { about: { field } });
}

const STATES = { none: LabelState.NONE, damaged: LabelState.DAMAGED, valid: LabelState.VALID, users: LabelState.USERS };

/** Encodes what was found; undefined when the label could not be read. */
export function encodeLabel(found: LabelFinding | undefined): Pick<ReportedDevice, "labelState" | "label"> {
  if (found === undefined) return { labelState: LabelState.UNSPECIFIED, label: undefined };
  return { labelState: STATES[found.state], label: found.state === "valid" ? { ...found.label } : undefined };
}
