import { bytesText, type DiskId } from "@diskmesh/domain";
import type { Disk, RegistryTables } from "../store/schema.js";
import { leftMsOf, type MoveProgress, rateOf } from "./move-progress.js";
import { type Copying, type MoveStep, planMove } from "./moves.js";

const MINUTE_MS = 60_000;

/** Returns how far the moves of a disk are, or why they wait; undefined when no part of the disk moves. */
export function moveText(
  tables: RegistryTables,
  diskId: DiskId,
  progress: MoveProgress | undefined,
): string | undefined {
  const disk = tables.disks.get(diskId);
  if (disk === undefined) return undefined;
  const step = planMove(tables, diskId);
  const text = stepText(step, progress) ?? leavingText(disk);
  if (text === undefined) return undefined;
  const move = disk.parts.find((part) => part.move !== undefined && part.move.attempts > 0)?.move;
  const errors = move === undefined ? "" : `; failed tries: ${move.attempts}, the last one: ${move.lastError}`;
  const waiting = disk.parts.filter((part) => part.move !== undefined).length - 1;
  const others = waiting > 0 ? `; ${waiting} more of its parts move after this one` : "";
  return `${text}${errors}${others}`;
}

function stepText(step: MoveStep, progress: MoveProgress | undefined): string | undefined {
  switch (step.kind) {
    case "none":
      return undefined;
    case "wait":
      return `its move waits: ${step.why}`;
    case "choose":
      return `its move waits for ${progress?.waits ?? "a target, which is being chosen"}`;
    case "give_up":
      return `its move gets another target: ${step.why}`;
    case "begin":
      return "its copy is about to begin";
    case "copy":
      return copyText(step, `the agent of host ${step.targetHost.hostId} copies`, progress);
    case "mirror":
      return copyText(step, `host ${step.holder.hostId}, which uses it, copies`, progress);
  }
}

function copyText(
  { source, target, sizeBytes, sessionNumber }: Copying,
  who: string,
  progress: MoveProgress | undefined,
): string {
  const what = `${who} device ${source.deviceId} to device ${target.deviceId} on host ${target.hostId}`;
  const copy = progress?.copy;
  if (copy?.sessionNumber !== sessionNumber)
    return `${what}, of ${bytesText(sizeBytes)}; ${progress?.waits ?? "it begins"}`;
  const leftMs = leftMsOf(copy);
  const { maxBytesPerSecond: max } = copy;
  const limit = max === 0 ? "" : ` of at most ${bytesText(max)}/s`;
  const end = leftMs === undefined ? "" : `, ${bytesText(rateOf(copy))}/s${limit}, about ${timeText(leftMs)} left`;
  return `${what}: ${bytesText(sizeBytes - copy.copiedBytes)} of ${bytesText(sizeBytes)} left${end}`;
}

function timeText(ms: number): string {
  if (ms < 2 * MINUTE_MS) return `${Math.ceil(ms / 1_000)} s`;
  return ms < 120 * MINUTE_MS ? `${Math.ceil(ms / MINUTE_MS)} min` : `${Math.ceil(ms / (60 * MINUTE_MS))} h`;
}

function leavingText({ parts, publication }: Disk): string | undefined {
  const leaving = parts.flatMap(({ copies }) => copies).find(({ state }) => state === "LEAVING");
  if (leaving === undefined) return undefined;
  return `it has moved from device ${leaving.deviceId}, which is left once host ${publication?.hostId} confirms the new layout`;
}
