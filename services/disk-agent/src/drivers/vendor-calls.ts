import type { CallMethodRequest, CallMethodResponse, ListMethodsResponse } from "@diskmesh/api/agent";
import {
  AbortedError,
  CancelledError,
  DomainError,
  type Logger,
  messageOf,
  OutdatedError,
  parseId,
} from "@diskmesh/domain";
import { type DriverCall, DriverHost, type DriverOffers, type DriversConfig, findMethod } from "@diskmesh/driver/host";
import type { CallContext } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";

export interface VendorCallsOptions {
  readonly config: DriversConfig;
  readonly hostId: string;
  readonly bootId: string;
  readonly offers: DriverOffers;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
}

/** A call that goes on by itself. */
interface KeptCall {
  readonly abort: AbortController;
  readonly ended: Promise<void>;
  outcome: NonNullable<CallMethodResponse["outcome"]> | undefined;
}

/** Outcomes that may still be asked for. One director asks for those of the calls that it has under way. */
const MAX_KEPT = 1_000;
const MAX_OUTCOME_LENGTH = 4_000;
const PENDING_AFTER_MS = 10_000;
/** So long before the deadline of who asks. */
const ANSWER_MARGIN_MS = 500;

/** Calls of the methods that the host's drivers publish. */
export class VendorCalls {
  readonly #options: VendorCallsOptions;
  readonly #kept = new Map<string, KeptCall>();
  #host: DriverHost | undefined;

  constructor(options: VendorCallsOptions) {
    this.#options = options;
  }

  /** Until then there are no drivers. */
  start(): void {
    const { hostId: nodeId, ...rest } = this.#options;
    this.#host ??= new DriverHost({ ...rest, nodeId });
  }

  async close(): Promise<void> {
    await this.#host?.close();
  }

  listMethods(): ListMethodsResponse {
    const listings = new Map(this.#host?.listings().map((listing) => [listing.name, listing]));
    const drivers = (this.#host?.drivers() ?? []).map(({ name, package: from, state, problem }) => {
      const listing = listings.get(name);
      // One whose name another one has has no methods.
      listings.delete(name);
      const methods = (listing?.nodeMethods ?? []).map(({ schema, ...method }) => ({ ...method, argsSchema: schema }));
      return { name, package: from, state, problem, methods, catchAll: listing?.catchAll.node ?? false };
    });
    return { bootId: this.#options.bootId, revision: this.#host?.revision ?? "", drivers };
  }

  async call(request: CallMethodRequest, call: CallContext): Promise<CallMethodResponse> {
    const { bootId } = this.#options;
    if (request.bootId !== bootId)
      throw new OutdatedError(`boot id ${request.bootId.slice(0, 64)} is not this start's: list the methods again`);
    const { callId } = request;
    if (callId === "") return { outcome: { $case: "value", value: await this.#call(request, call.signal) } };
    const kept = this.#kept.get(parseId("call_id", callId)) ?? this.#begin(request);
    await this.#wait(kept, call);
    return { outcome: kept.outcome ?? { $case: "pending", value: true } };
  }

  cancel(callId: string): void {
    this.#kept.get(callId)?.abort.abort(new CancelledError("the task was cancelled"));
  }

  async #call(request: CallMethodRequest, signal: AbortSignal): Promise<unknown> {
    const host = this.#host;
    if (host === undefined || (request.revision !== "" && request.revision !== host.revision))
      throw new AbortedError("the methods have changed: list them again", { about: { methods: "changed" } });
    const { driver, method, httpMethod, args = {}, validateOnly } = request;
    const { syncTimeoutMs, asyncTimeoutMs } = this.#options.config.limits;
    const listing = host.listings().find(({ name }) => name === driver);
    const isAsync = listing !== undefined && findMethod(listing, "node", method)?.async === true;
    const timeoutMs = isAsync ? asyncTimeoutMs : syncTimeoutMs;
    const nodeId = this.#options.hostId;
    return host.call(driver, {
      kind: "node",
      method,
      httpMethod,
      args,
      nodeId,
      validateOnly,
      timeoutMs,
      signal,
    } satisfies DriverCall);
  }

  #begin(request: CallMethodRequest): KeptCall {
    const abort = new AbortController();
    const kept: KeptCall = {
      abort,
      outcome: undefined,
      ended: this.#call(request, abort.signal).then(
        (value) => {
          kept.outcome = { $case: "value", value: JSON.stringify(value).slice(0, MAX_OUTCOME_LENGTH) };
        },
        (error: unknown) => {
          const reason = error instanceof DomainError ? error.reason : "INTERNAL";
          kept.outcome = { $case: "failure", value: { reason, message: messageOf(error) } };
        },
      ),
    };
    this.#kept.set(request.callId, kept);
    for (const [callId, { outcome }] of this.#kept) {
      if (this.#kept.size <= MAX_KEPT) break;
      if (outcome !== undefined) this.#kept.delete(callId);
    }
    return kept;
  }

  /** Until it has ended, or whoever asks is to be told that it has not. */
  async #wait({ ended }: KeptCall, call: CallContext): Promise<void> {
    const { clock } = this.#options;
    const leftMs = call.deadlineAtMs - clock.nowMs() - ANSWER_MARGIN_MS;
    const over = new AbortController();
    const late = clock.sleep(Math.max(0, Math.min(PENDING_AFTER_MS, leftMs)), over.signal).catch(() => undefined);
    await Promise.race([ended, late]);
    over.abort();
  }
}
