import type { CpiCall } from "@diskmesh/cpi";
import { TimeoutError } from "@diskmesh/domain";

/** Maximum time that is reserved before the call's deadline for cancelling a hanging CPI and sending the response. */
const MAX_MARGIN_MS = 2_000;

export const timeLeftMs = (call: CpiCall): number => Math.max(0, call.deadlineAtMs - Date.now());

/**
 * Runs one CPI's part of a call to several CPIs, and cancels it shortly before the call's deadline or after `maxMs`.
 * The caller then still receives the outcomes of the other CPIs.
 */
export async function endingEarly<Result>(
  call: CpiCall,
  work: (call: CpiCall) => Promise<Result>,
  maxMs = Number.POSITIVE_INFINITY,
): Promise<Result> {
  const leftMs = timeLeftMs(call);
  const limitMs = Math.min(maxMs, leftMs - Math.min(MAX_MARGIN_MS, leftMs / 4));
  const controller = new AbortController();
  const abort = () => controller.abort(call.signal.reason);
  const tooSlow = () => controller.abort(new TimeoutError(`the CPI did not answer within ${Math.round(limitMs)} ms`));
  const timer = setTimeout(tooSlow, limitMs);
  call.signal.addEventListener("abort", abort);
  if (call.signal.aborted) abort();
  try {
    return await work({ ...call, signal: controller.signal, deadlineAtMs: Date.now() + limitMs });
  } finally {
    clearTimeout(timer);
    call.signal.removeEventListener("abort", abort);
  }
}
