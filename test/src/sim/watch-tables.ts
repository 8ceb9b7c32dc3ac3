import { decodeRecord, decodeTable, diskDigest, LABEL_BYTES, RECORD_BYTES } from "@diskmesh/disk-agent/simulation";
import { bytesOf, type Device } from "@diskmesh/disk-registry/simulation";
import type { Drive } from "./drive.js";
import { BLOCK_BYTES } from "./machine.js";

/** A device on a drive. */
export interface Placed {
  readonly drive: Drive;
  /** Index of the device's first block on the drive. */
  readonly firstBlock: number;
}

/**
 * Returns what is wrong when bytes of a disk's user reach a run of slices: the device's table has the run before its first
 * session, and the run the record before each one. Undefined for nothing.
 */
export function whyNotEntered(placed: Placed, at: number, diskId: string, session: number): string | undefined {
  const atBytes = at * BLOCK_BYTES;
  const entry = tableOf(placed).find(
    (each) => atBytes >= each.offsetBytes && atBytes < each.offsetBytes + each.sizeBytes,
  );
  if (entry?.disk !== diskDigest(diskId))
    return entry === undefined ? "no table has it" : "the table has another disk there";
  const found = decodeRecord(bytesAt(placed, entry.offsetBytes, RECORD_BYTES))?.record;
  if (found?.diskId !== diskId) return `its run has the record of ${found?.diskId ?? "no disk"}`;
  return found.sessionNumber < session ? `its run has the record of session ${found.sessionNumber}` : undefined;
}

/**
 * Returns the runs in the device's table that the registry does not know. One that has grown in no session is longer in the
 * registry.
 */
export function unknownEntries(placed: Placed, device: Device): readonly string[] {
  const known = device.runs.map((run) => ({ ...bytesOf(device, run), diskId: run.diskId }));
  const isKnown = (entry: { offsetBytes: number; sizeBytes: number; disk: string }): boolean =>
    known.some(
      ({ offsetBytes, sizeBytes, diskId }) =>
        offsetBytes <= entry.offsetBytes &&
        offsetBytes + sizeBytes >= entry.offsetBytes + entry.sizeBytes &&
        (diskId === "" || entry.disk === diskDigest(diskId)),
    );
  return tableOf(placed).flatMap((entry) =>
    isKnown(entry) ? [] : [`bytes ${entry.offsetBytes} + ${entry.sizeBytes} of ${device.deviceId}`],
  );
}

function tableOf(placed: Placed): ReturnType<typeof decodeTable>["entries"] {
  return decodeTable(bytesAt(placed, 0, LABEL_BYTES)).entries;
}

/** Returns what labels, tables and records have of these bytes of the device; zeros elsewhere. */
function bytesAt({ drive, firstBlock }: Placed, offsetBytes: number, lengthBytes: number): Buffer {
  const startBytes = firstBlock * BLOCK_BYTES + offsetBytes;
  const bytes = Buffer.alloc(lengthBytes);
  for (const [at, label] of drive.labels)
    if (at >= startBytes && at < startBytes + lengthBytes) label.copy(bytes, at - startBytes);
  return bytes;
}
