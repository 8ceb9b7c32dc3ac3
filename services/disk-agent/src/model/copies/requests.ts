import type { DeviceId } from "@diskmesh/domain";
import { type Holder, type HolderPart, isFresh, isNeeded, isServing, type Leg } from "./holder.js";

/** A user's request, and how far it is on each copy. A write is any change of bytes, a discard as well. */
export interface CopyRequest {
  readonly kind: "read" | "write" | "flush";
  readonly part: number;
  /** Block of the part; of no meaning for a flush. */
  readonly block: number;
  readonly answers: ReadonlyMap<DeviceId, "sent" | "done">;
}

export type RequestStep =
  | { readonly does: "send"; readonly to: readonly DeviceId[] }
  | { readonly does: "wait" }
  /** `by`: copy whose bytes a read returns. */
  | { readonly does: "acknowledge"; readonly by: DeviceId }
  | { readonly does: "fail" };

/**
 * Decides what to do with a request. Asked again after each answer of a copy and each change of the holder. While a part
 * holds, no request is answered, a read no more than a write: what one copy has the next layout may not have.
 */
export function nextStep(holder: Holder, request: CopyRequest, nowMs: number): RequestStep {
  const part = holder.parts[request.part];
  if (part === undefined || holder.isOver) return { does: "fail" };
  if (!isServing(holder, part)) return { does: "wait" };
  const legs = legsOf(part, request);
  const unsent = legs.filter(({ deviceId }) => !request.answers.has(deviceId)).map(({ deviceId }) => deviceId);
  if (unsent.length > 0) return mayBegin(holder, request) ? { does: "send", to: unsent } : { does: "wait" };
  const [first] = legs;
  if (first === undefined || !legs.every(({ deviceId }) => request.answers.get(deviceId) === "done"))
    return { does: "wait" };
  if (request.kind === "read" && !isFresh(part, nowMs)) return { does: "wait" };
  return { does: "acknowledge", by: first.deviceId };
}

/** Returns the copies on which the request must be done. */
function legsOf({ legs }: HolderPart, { kind, block, answers }: CopyRequest): readonly Leg[] {
  if (kind === "read") {
    const readable = legs.filter(({ use, failure }) => use === "COUNTS" && failure === undefined);
    return [...readable.filter(({ deviceId }) => answers.has(deviceId)), ...readable].slice(0, 1);
  }
  return legs.filter((leg) => {
    if (isNeeded(leg)) return true;
    if (leg.failure !== undefined || leg.filling === undefined) return false;
    return kind === "write" ? block < leg.copiedBlocks : leg.filling !== "copying";
  });
}

/** Returns whether the request may begin: no write does while a snapshot waits for those in flight. */
function mayBegin({ snapshot }: Holder, { kind, answers }: CopyRequest): boolean {
  return kind !== "write" || answers.size > 0 || snapshot?.phase !== "draining";
}
