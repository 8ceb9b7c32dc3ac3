import { CancelledError, DomainError, messageOf } from "@diskmesh/domain";
import type { DriverCall } from "./driver-process.js";
import type { CalledMethod } from "./listing.js";
import { type Progress, ProgressFeed } from "./progress-feed.js";

/** The outcome of a call: its truncated JSON result or its failure, with secret arguments redacted. */
type KeptOutcome =
  | { readonly failed: false; readonly text: string }
  | { readonly failed: true; readonly reason: string; readonly message: string };

/** The part of a driver host that runs calls. */
interface CalledHost {
  call(name: string, call: DriverCall): Promise<unknown>;
  hide(name: string, call: CalledMethod, text: string): string;
}

/** A call that continues independently of its callers. */
export interface KeptCall {
  readonly ended: Promise<KeptOutcome>;
  /** Undefined while the call runs. */
  readonly outcome: KeptOutcome | undefined;
  readonly progress: Pick<ProgressFeed, "latest" | "after">;
}

/** Maximum outcomes kept for later requests. A single director requests the outcomes of its calls under way. */
const MAX_KEPT = 1_000;
const MAX_OUTCOME_LENGTH = 4_000;

/** Calls by unique id. A repeated request joins the call and never starts it again. */
export class KeptCalls {
  readonly #calls = new Map<string, KeptCall & { readonly abort: AbortController }>();

  get(callId: string): KeptCall | undefined {
    return this.#calls.get(callId);
  }

  /** Starts a call with a new id. */
  begin(host: CalledHost, callId: string, driver: string, call: KeptDriverCall): KeptCall {
    const abort = new AbortController();
    const progress = new ProgressFeed();
    const onProgress = (told: Progress): void => progress.tell(told);
    const ended = host.call(driver, { ...call, validateOnly: false, signal: abort.signal, onProgress }).then(
      (value): KeptOutcome => {
        const text = host.hide(driver, call, JSON.stringify(value));
        return { failed: false, text: text.slice(0, MAX_OUTCOME_LENGTH) };
      },
      (error: unknown): KeptOutcome => {
        const reason = error instanceof DomainError ? error.reason : "INTERNAL";
        return { failed: true, reason, message: messageOf(error) };
      },
    );
    const kept = { abort, ended, outcome: undefined as KeptOutcome | undefined, progress };
    void ended.then((outcome) => {
      progress.close();
      kept.outcome = outcome;
    });
    this.#calls.set(callId, kept);
    for (const [id, { outcome }] of this.#calls) {
      if (this.#calls.size <= MAX_KEPT) break;
      if (outcome !== undefined) this.#calls.delete(id);
    }
    return kept;
  }

  /** Requests the end of a call; ignored for ended and unknown calls. */
  cancel(callId: string): void {
    const text = "the method was cancelled: its outcome is not known";
    this.#calls.get(callId)?.abort.abort(new CancelledError(text));
  }

  /** Drops a call whose outcome nobody will request again. */
  forget(callId: string): void {
    this.#calls.delete(callId);
  }
}

type KeptDriverCall = Omit<DriverCall, "validateOnly" | "signal">;
