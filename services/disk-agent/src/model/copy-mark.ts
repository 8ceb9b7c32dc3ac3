/** Progress of a copy whose chunks end in any order. */
export interface CopyMark {
  /** First byte that no chunk has. */
  readonly nextBytes: number;
  /** Starts of the chunks that are not on the target. */
  readonly unwritten: ReadonlySet<number>;
  /** All bytes below are on the target, durably. */
  readonly durableBytes: number;
}

export function beginAt(durableBytes: number): CopyMark {
  return { nextBytes: durableBytes, unwritten: new Set(), durableBytes };
}

/** Notes that the next chunk is being copied. */
export function noteChunk({ nextBytes, unwritten, durableBytes }: CopyMark, lengthBytes: number): CopyMark {
  return { nextBytes: nextBytes + lengthBytes, unwritten: new Set(unwritten).add(nextBytes), durableBytes };
}

/** Notes that the target has acknowledged the chunk. */
export function noteWritten(mark: CopyMark, startBytes: number): CopyMark {
  return { ...mark, unwritten: new Set([...mark.unwritten].filter((start) => start !== startBytes)) };
}

/** Returns the byte below which all is written. */
export function writtenBytes({ nextBytes, unwritten }: CopyMark): number {
  return Math.min(nextBytes, ...unwritten);
}

/** Notes that a flush of the target has succeeded that began when all bytes below were written. */
export function noteFlushed(mark: CopyMark, belowBytes: number): CopyMark {
  return { ...mark, durableBytes: Math.max(mark.durableBytes, belowBytes) };
}

/** A copy, and the file that it writes. A later session of either run may have written between two copies of a session. */
interface CopyPlace {
  readonly sessionNumber: number;
  readonly source: string;
  readonly target: string;
  /** Identity of the target's file, which begins with the boot of its machine. */
  readonly fileIdentity: string;
  /** Generation of the target's attach order. */
  readonly deviceGeneration: number;
}

/**
 * Returns the token with which the copy goes on, also in a next life of the agent; empty for none. Both devices refuse the
 * session once they have granted a later one, so nothing else has changed the bytes while they still grant it.
 */
export function resumeToken(place: CopyPlace, durableBytes: number): string {
  return durableBytes === 0 || place.fileIdentity === "" ? "" : `${durableBytes}:${textOf(place)}`;
}

/** Returns the bytes that a token says are copied, durably. */
export function durableBytesOf(token: string): number {
  return Number(/^\d{1,16}(?=:)/.exec(token)?.[0] ?? 0);
}

/** Returns the byte at which the copy begins: 0 for a token of any other copy or file. */
export function startOf(token: string, place: CopyPlace, sizeBytes: number): number {
  const [, bytes, text] = /^(\d{1,16}):(.*)$/.exec(token) ?? [];
  const startBytes = Number(bytes ?? 0);
  return place.fileIdentity !== "" && text === textOf(place) && startBytes <= sizeBytes ? startBytes : 0;
}

function textOf({ sessionNumber, source, target, fileIdentity, deviceGeneration }: CopyPlace): string {
  return JSON.stringify([sessionNumber, source, target, fileIdentity, deviceGeneration]);
}
