import { CancelledError, DomainError, messageOf } from "@diskmesh/domain";
import type { DriverCall } from "./driver-process.js";
import type { CalledMethod } from "./listing.js";

/** The outcome of a call: the beginning of its answer as JSON, or its failure. Secret arguments are hidden in both. */
type KeptOutcome =
  | { readonly failed: false; readonly text: string }
  | { readonly failed: true; readonly reason: string; readonly message: string };

/** The part of a host of drivers that runs calls. */
interface CalledHost {
  call(name: string, call: DriverCall): Promise<unknown>;
  hide(name: string, call: CalledMethod, text: string): string;
}

/** A call that goes on by itself. */
export interface KeptCall {
  readonly ended: Promise<KeptOutcome>;
  /** Undefined until it has ended. */
  readonly outcome: KeptOutcome | undefined;
}

/** Outcomes that may still be asked for. One director asks for those of the calls that it has under way. */
const MAX_KEPT = 1_000;
const MAX_OUTCOME_LENGTH = 4_000;

/** Calls by ids that are unique for ever: whoever asks again joins a call, and never begins it again. */
export class KeptCalls {
  readonly #calls = new Map<string, KeptCall & { readonly abort: AbortController }>();

  get(callId: string): KeptCall | undefined {
    return this.#calls.get(callId);
  }

  /** Begins a call with a new id. */
  begin(host: CalledHost, callId: string, driver: string, call: KeptDriverCall): KeptCall {
    const abort = new AbortController();
    const ended = host.call(driver, { ...call, validateOnly: false, signal: abort.signal }).then(
      (value): KeptOutcome => {
        const text = host.hide(driver, call, JSON.stringify(value));
        return { failed: false, text: text.slice(0, MAX_OUTCOME_LENGTH) };
      },
      (error: unknown): KeptOutcome => {
        const reason = error instanceof DomainError ? error.reason : "INTERNAL";
        return { failed: true, reason, message: messageOf(error) };
      },
    );
    const kept = { abort, ended, outcome: undefined as KeptOutcome | undefined };
    void ended.then((outcome) => {
      kept.outcome = outcome;
    });
    this.#calls.set(callId, kept);
    for (const [id, { outcome }] of this.#calls) {
      if (this.#calls.size <= MAX_KEPT) break;
      if (outcome !== undefined) this.#calls.delete(id);
    }
    return kept;
  }

  /** Has it end soon; nothing happens when it has ended, or was never begun. */
  cancel(callId: string): void {
    const text = "the method was told to end: what it had done by then is not known";
    this.#calls.get(callId)?.abort.abort(new CancelledError(text));
  }

  /** Nobody will ask for it again. */
  forget(callId: string): void {
    this.#calls.delete(callId);
  }
}

type KeptDriverCall = Omit<DriverCall, "validateOnly" | "signal">;
