/** One of the two copies of a part that moves. */
export type CopyName = "source" | "target";

/**
 * State of the mirror of a part. Its phases follow each other:
 * - `copying`: bytes that were written earlier are copied. A flush reaches the source alone.
 * - `settling`: all bytes are copied. A flush reaches both copies, and the target is flushed once.
 * - `synced`: the target has all that the source has.
 * - `bound`: EQUAL was answered. Nothing is acknowledged that is not on both copies.
 */
export interface MirrorState {
  readonly phase: "copying" | "settling" | "synced" | "bound";
  /** First failure. Ends the mirror before `bound`, and holds all requests back after it. */
  readonly failure?: { readonly at: CopyName; readonly message: string };
  /** Copy that a later revision named as the part's bytes. The mirror has ended then. */
  readonly counts?: CopyName;
  /** True when the export ends: requests are held back no longer, they fail. */
  readonly isEnding?: true;
}

export const MIRROR_BEGUN: MirrorState = { phase: "copying" };

/** Answer of a copy to a request. `refused`: the copy has a later session. */
type CopyAnswer = "none" | "sent" | "done" | "failed" | "refused";

/** A request of a client, and how far it is on each copy. */
export interface MirrorRequest {
  /** A write is any change of bytes. */
  readonly kind: "read" | "write" | "flush";
  readonly source: CopyAnswer;
  readonly target: CopyAnswer;
  /** True when it was sent to the copy that counts after the mirror had ended. */
  readonly isRepeated: boolean;
  /** True when it was held back for the I/O timeout. */
  readonly isOverdue?: true;
}

export const newRequest = (kind: MirrorRequest["kind"]): MirrorRequest => ({
  kind,
  source: "none",
  target: "none",
  isRepeated: false,
});

export type MirrorStep =
  | { readonly does: "send"; readonly to: readonly CopyName[] }
  | { readonly does: "wait" }
  /** `by`: copy whose answer the client gets. */
  | { readonly does: "acknowledge"; readonly by: CopyName }
  /** `by`: copy whose error the client gets; undefined when the export has ended, or nobody said in time which counts. */
  | { readonly does: "fail"; readonly by?: CopyName };

/** Decides what to do with a request. Asked again after each answer of a copy and each change of the state. */
export function nextStep(state: MirrorState, request: MirrorRequest): MirrorStep {
  const { counts, failure, phase } = state;
  if (counts !== undefined) return stepOn(counts, request);
  // The source's session is over, and with it the export's.
  if (request.source === "refused") return { does: "fail", by: "source" };
  if (failure !== undefined && phase !== "bound") return stepOn("source", request, true);
  if (failure !== undefined) return { does: state.isEnding || mayFail(request) ? "fail" : "wait" };
  if (request.source === "failed") return { does: "fail", by: "source" };
  const needed = copiesOf(state, request);
  const unsent = needed.filter((copy) => request[copy] === "none");
  if (unsent.length > 0) return { does: "send", to: unsent };
  return needed.every((copy) => request[copy] === "done") ? { does: "acknowledge", by: "source" } : { does: "wait" };
}

/** Returns whether a request was held back for too long, and cannot land on a copy after its client got an error. */
function mayFail({ isOverdue, source, target }: MirrorRequest): boolean {
  return isOverdue === true && source !== "sent" && target !== "sent";
}

/** Returns whether requests wait for a later revision, which says which copy counts. */
export function isHolding({ failure, phase, counts }: MirrorState): boolean {
  return failure !== undefined && phase === "bound" && counts === undefined;
}

/** Returns the copies on which a request must be done while the mirror works. */
function copiesOf({ phase }: MirrorState, { kind }: MirrorRequest): readonly CopyName[] {
  if (kind === "read" || (kind === "flush" && phase === "copying")) return ["source"];
  return ["source", "target"];
}

/** Decides by one copy alone. What failed there while the mirror worked is repeated once, unless `isFinal`. */
function stepOn(copy: CopyName, request: MirrorRequest, isFinal = request.isRepeated): MirrorStep {
  const answer = request[copy];
  if (answer === "none") return { does: "send", to: [copy] };
  if (answer === "sent") return { does: "wait" };
  if (answer === "done") return { does: "acknowledge", by: copy };
  return answer === "failed" && !isFinal ? { does: "send", to: [copy] } : { does: "fail", by: copy };
}

export function noteSent({ counts }: MirrorState, request: MirrorRequest, to: CopyName): MirrorRequest {
  return { ...request, [to]: "sent", isRepeated: counts !== undefined };
}

/** Notes that a request was held back for the I/O timeout. */
export function noteOverdue(request: MirrorRequest): MirrorRequest {
  return { ...request, isOverdue: true };
}

/** Notes the answer of a copy to a request. */
export function noteAnswer(
  state: MirrorState,
  request: MirrorRequest,
  at: CopyName,
  answer: { readonly is: "done" | "failed" | "refused"; readonly message: string },
): { readonly state: MirrorState; readonly request: MirrorRequest } {
  const next = { ...request, [at]: answer.is };
  if (answer.is === "done" || (at === "source" && answer.is === "refused")) return { state, request: next };
  // A failed read of the source leaves the copies alike. Its client gets the error before EQUAL.
  const isHarmless = at === "source" && request.kind === "read" && state.phase !== "bound";
  return { state: isHarmless ? state : noteFailure(state, at, answer.message), request: next };
}

/** Notes that a copy has failed. Later failures change nothing. */
export function noteFailure(state: MirrorState, at: CopyName, message: string): MirrorState {
  if (state.failure !== undefined || state.counts !== undefined) return state;
  return { ...state, failure: { at, message } };
}

/** Notes that all bytes are copied. */
export function noteCopied(state: MirrorState): MirrorState {
  return isAlive(state) && state.phase === "copying" ? { ...state, phase: "settling" } : state;
}

/** Notes that the target was flushed, after all writes had ended that were begun while bytes were copied. */
export function noteSettled(state: MirrorState): MirrorState {
  return isAlive(state) && state.phase === "settling" ? { ...state, phase: "synced" } : state;
}

/** Returns whether the mirror works: no copy has failed, no later revision has ended it, and the export goes on. */
export function isAlive({ failure, counts, isEnding }: MirrorState): boolean {
  return failure === undefined && counts === undefined && !isEnding;
}

export type MirrorAnswer =
  | { readonly is: "copying" }
  | { readonly is: "equal" }
  /** `at`: undefined when the source has failed before EQUAL, after which the source still counts. */
  | { readonly is: "failed"; readonly at: CopyName | undefined; readonly message: string };

/** Answers how far the mirror is. EQUAL binds. */
export function ask(state: MirrorState): { readonly state: MirrorState; readonly answer: MirrorAnswer } {
  const { failure, phase } = state;
  if (failure !== undefined) {
    const { at, message } = failure;
    const isBefore = at === "source" && phase !== "bound";
    return { state, answer: { is: "failed", at: isBefore ? undefined : at, message } };
  }
  if (phase === "copying" || phase === "settling") return { state, answer: { is: "copying" } };
  return { state: { ...state, phase: "bound" }, answer: { is: "equal" } };
}

/** Ends the mirror: a later revision says which copy counts. */
export function noteDecided(state: MirrorState, counts: CopyName): MirrorState {
  return { ...state, counts };
}

/**
 * Returns how many bytes from the start both copies have alike, once both are flushed. `changing`: first bytes of the changes
 * that are not done on both.
 */
export function alikeBytes(
  { phase, failure, counts }: MirrorState,
  {
    sizeBytes,
    belowBytes,
    changing,
  }: { readonly sizeBytes: number; readonly belowBytes: number; readonly changing: Iterable<number> },
): number {
  if (failure !== undefined || counts !== undefined) return 0;
  return Math.min(phase === "copying" ? belowBytes : sizeBytes, ...changing);
}

export function noteEnding(state: MirrorState): MirrorState {
  return { ...state, isEnding: true };
}
