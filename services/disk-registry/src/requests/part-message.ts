import {
  CopyState,
  type DiskPart as DiskPartMessage,
  MoveReason,
  type PartMove as PartMoveMessage,
} from "@diskmesh/api/registry";
import { durationOf } from "@diskmesh/rpc";
import { leftMsOf, type MoveProgress, rateOf } from "../model/disks/move-progress.js";
import { moveText } from "../model/disks/move-text.js";
import type { Move, Part } from "../model/store/disk-parts.js";
import { offsetOf, partSizeBytes } from "../model/store/layout.js";
import type { Disk, RegistryTables } from "../model/store/schema.js";

/** Returns a part of a disk as a message, with the progress of its move. */
export function partMessage(
  tables: RegistryTables,
  disk: Disk,
  part: Part,
  progress: MoveProgress | undefined,
): DiskPartMessage {
  const { diskId } = disk;
  const copies = part.copies.map((copy) => {
    const { deviceId, state } = copy;
    const hostId = tables.devices.get(deviceId)?.hostId ?? "";
    return { deviceId, hostId, state: CopyState[state], offsetBytes: offsetOf(tables, disk, copy) };
  });
  const move =
    part.move && moveMessage(part.move, moveText(tables, diskId, progress) ?? "", progressOf(part, progress));
  return { sizeBytes: partSizeBytes(tables, part), copies, move };
}

/** Returns the progress of the part's present try; undefined when none runs. */
function progressOf({ copies }: Part, progress: MoveProgress | undefined): MoveProgress["copy"] {
  const copy = progress?.copy;
  const isOfPart = copies.some(
    ({ state, sessionNumber }) => state === "COPYING" && sessionNumber === copy?.sessionNumber,
  );
  return isOfPart ? copy : undefined;
}

function moveMessage(move: Move, message: string, copy: MoveProgress["copy"]): PartMoveMessage {
  const { reason, requestedAtMs, toHostId, attempts, lastError } = move;
  const leftMs = copy && leftMsOf(copy);
  return {
    reason: MoveReason[reason],
    requestTime: new Date(requestedAtMs),
    toHostId: toHostId ?? "",
    attempts,
    lastError,
    message,
    copiedBytes: copy?.copiedBytes ?? 0,
    bytesPerSecond: copy === undefined ? 0 : rateOf(copy),
    remainingDuration: leftMs === undefined ? undefined : durationOf(leftMs),
  };
}
