import { linearTable, SECTOR_BYTES, type Segment } from "./mapped-devices.js";

/** Largest unit of a copy in sectors. A request of another unit waits for none. Smaller units cut requests in two. */
const REGION_SECTORS = 8_192;
/** Time in ms of a window at a given rate. */
const WINDOW_MS = 2_000;
const MIN_WINDOW_BYTES = 4 * 1024 * 1024;

/** Both copies of a part that moves. */
export interface MovingBytes {
  readonly source: Segment;
  readonly target: Segment;
}

/**
 * How far a part has moved, which its table says. Up to `copiedBytes` both copies are alike, and each write goes to both; all
 * bytes after the window are the source's. The kernel copies the window. With all bytes copied, the target may count.
 */
export type MoveStage = { readonly copiedBytes: number; readonly windowBytes: number };

export const NOTHING_COPIED: MoveStage = { copiedBytes: 0, windowBytes: 0 };

/** Returns the stage of a part of which that many bytes are alike. Its first window has regions of full size. */
export function stageAt({ source }: MovingBytes, copiedBytes: number): MoveStage {
  const isAll = copiedBytes >= source.sizeBytes;
  return { copiedBytes: isAll ? source.sizeBytes : copiedBytes - (copiedBytes % MIN_WINDOW_BYTES), windowBytes: 0 };
}

/** Returns whether no write of the part is acknowledged that is not on both copies. */
export function isWhole({ source }: MovingBytes, { copiedBytes }: MoveStage): boolean {
  return copiedBytes === source.sizeBytes;
}

/** Returns the table of the part's device. */
export function tableAt({ source, target }: MovingBytes, { copiedBytes, windowBytes }: MoveStage): string {
  const doneBytes = copiedBytes + windowBytes;
  const lines = [];
  if (copiedBytes > 0) lines.push(mirrorLine(source, target, { startBytes: 0, sizeBytes: copiedBytes }, "nosync"));
  if (windowBytes > 0)
    lines.push(mirrorLine(source, target, { startBytes: copiedBytes, sizeBytes: windowBytes }, "sync"));
  const restBytes = source.sizeBytes - doneBytes;
  const rest = { ...source, offsetBytes: source.offsetBytes + doneBytes, sizeBytes: restBytes };
  if (restBytes > 0) lines.push(linearTable([rest]).replace(/^0/, `${doneBytes / SECTOR_BYTES}`));
  return lines.join("\n");
}

/** With `handle_errors` the kernel holds a write that one copy lacks until the table changes. */
function mirrorLine(
  source: Segment,
  target: Segment,
  { startBytes, sizeBytes }: { readonly startBytes: number; readonly sizeBytes: number },
  log: "sync" | "nosync",
): string {
  const sectors = sizeBytes / SECTOR_BYTES;
  const legs = [source, target].map(({ on, offsetBytes }) => `${on} ${(offsetBytes + startBytes) / SECTOR_BYTES}`);
  const region = Math.min(REGION_SECTORS, 2 ** Math.floor(Math.log2(sectors)));
  return `${startBytes / SECTOR_BYTES} ${sectors} mirror core 2 ${region} ${log} 2 ${legs.join(" ")} 1 handle_errors`;
}

/** Returns the copies of a part and how far it has moved, by its table; undefined for a table without two copies. */
export function movingBytesOf(table: string): { readonly bytes: MovingBytes; readonly stage: MoveStage } | undefined {
  const lines = table.split("\n").map((line) => line.split(" "));
  const lineOf = (log: string) => lines.find(([, , kind, , , , has]) => kind === "mirror" && has === log);
  const [copied, window] = [lineOf("nosync"), lineOf("sync")];
  const sizeOf = (line: readonly string[] | undefined) => SECTOR_BYTES * Number(line?.[1] ?? 0);
  const sizeBytes = lines.reduce((sum, line) => sum + sizeOf(line), 0);
  const line = copied ?? window;
  if (line === undefined) return undefined;
  const segment = (at: number): Segment => ({
    on: line[at] ?? "",
    offsetBytes: SECTOR_BYTES * (Number(line[at + 1]) - Number(line[0])),
    sizeBytes,
  });
  const bytes = { source: segment(8), target: segment(10) };
  const stage = { copiedBytes: sizeOf(copied), windowBytes: sizeOf(window) };
  return tableAt(bytes, stage) === table ? { bytes, stage } : undefined;
}

/** Status of the copies, which the kernel reports. */
export interface CopiesStatus {
  /** Regions of the window that are alike on both copies, and all of them. */
  readonly alike: number;
  readonly regions: number;
  readonly failed: "source" | "target" | undefined;
}

const WORDS: Readonly<Record<string, string>> = { D: "write", F: "flush", S: "copy", R: "read" };

/** Reads the output of `dmsetup status` of a part's device. */
export function copiesStatusOf(output: string, { windowBytes }: MoveStage): CopiesStatus & { readonly why: string } {
  const lines = [...output.matchAll(/^\d+ \d+ mirror 2 \S+ \S+ (\d+)\/(\d+) 1 ([A-Z])([A-Z]) /gm)];
  const last = windowBytes > 0 ? lines.at(-1) : undefined;
  const letterOf = (at: number): string => lines.map((line) => line[at] ?? "").find((letter) => letter !== "A") ?? "A";
  const [source, target] = [letterOf(3), letterOf(4)];
  const failed = source !== "A" ? "source" : target !== "A" ? "target" : undefined;
  const letter = failed === "source" ? source : target;
  const why =
    failed === undefined ? "" : `the kernel says that a ${WORDS[letter] ?? "request"} of the ${failed} failed`;
  return { alike: Number(last?.[1] ?? 0), regions: Number(last?.[2] ?? 0), failed, why };
}

interface MoveRules {
  /** Largest window. */
  readonly windowBytes: number;
  /** 0 for no limit. */
  readonly bytesPerSecond: number;
  /** Time in ms since the present window began. */
  readonly windowMs: number;
}

/** Returns the next stage of a move whose copies both work; the same one while the kernel copies, or the rate is used up. */
export function nextStage(
  bytes: MovingBytes,
  stage: MoveStage,
  { alike, regions }: Pick<CopiesStatus, "alike" | "regions">,
  { windowBytes: largestBytes, bytesPerSecond, windowMs }: MoveRules,
): MoveStage {
  if (isWhole(bytes, stage) || (stage.windowBytes > 0 && alike < regions)) return stage;
  const copiedBytes = stage.copiedBytes + stage.windowBytes;
  const leftBytes = bytes.source.sizeBytes - copiedBytes;
  if (leftBytes === 0) return { copiedBytes, windowBytes: 0 };
  const isEarly = bytesPerSecond > 0 && windowMs * bytesPerSecond < 1_000 * stage.windowBytes;
  if (isEarly) return stage;
  const windowBytes = windowAt(largestBytes, bytesPerSecond);
  // The last window is not smaller than the others, so that its regions are not.
  return { copiedBytes, windowBytes: leftBytes < 2 * windowBytes ? leftBytes : windowBytes };
}

function windowAt(largestBytes: number, bytesPerSecond: number): number {
  if (bytesPerSecond === 0) return largestBytes;
  const wantedBytes = Math.max(MIN_WINDOW_BYTES, (bytesPerSecond * WINDOW_MS) / 1_000);
  return Math.min(largestBytes, wantedBytes - (wantedBytes % MIN_WINDOW_BYTES));
}

/** Returns the bytes that both copies have alike. */
export function copiedBytesOf({ copiedBytes, windowBytes }: MoveStage, { alike, regions }: CopiesStatus): number {
  return copiedBytes + (regions === 0 ? 0 : Math.floor((windowBytes * alike) / regions));
}
