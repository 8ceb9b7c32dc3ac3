import type { CarryResponse } from "@diskmesh/api/rpc";
import { type ClientDuplexStream, Metadata, type ServiceError, type StatusObject, status } from "@grpc/grpc-js";
import { CARRY } from "./carrier-method.js";
import type { Link, LinkedCall } from "./link.js";

type Callback = (error: ServiceError | null, response?: Buffer) => void;

/** What of a call of grpc-js is asked for while it is under way. */
export type BegunCall = Pick<LinkedCall, "cancel" | "getAuthContext">;

/** A call that may be carried. */
export interface CallToCarry {
  readonly path: string;
  readonly request: Buffer;
  readonly metadata: Metadata;
  /** In milliseconds since 1970; undefined for none. */
  readonly deadlineAtMs: number | undefined;
  readonly callback: Callback;
  /** Makes the call by itself, of a server that carries none. */
  readonly instead: () => BegunCall;
}

/**
 * A stream is left then, used or not: a server ends its connections for their age, which must end no call, and a client
 * those that it does not use. As long a server that carries no calls is not asked again: it may be replaced by one that
 * does.
 */
const MAX_AGE_MS = 60_000;
/** What a timer can wait for. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Carries calls to one server, on a stream that is opened with the first of them, and again when it was lost. */
export class CarrierClient {
  #carrier: Carrier | undefined;
  /** The streams that are not over: that one, and those that were left while calls were under way on them. */
  readonly #open = new Set<Carrier>();
  #refusedAtMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly maxAgeMs = MAX_AGE_MS) {}

  /** Whether the server is not known to carry no calls. */
  get isServed(): boolean {
    return performance.now() - this.#refusedAtMs >= this.maxAgeMs;
  }

  begin(link: Link, call: CallToCarry): BegunCall {
    if (this.#carrier?.isFor(link) !== true) {
      this.#carrier?.end();
      const onRefused = () => {
        this.#refusedAtMs = performance.now();
      };
      const carrier: Carrier = new Carrier(link, this.maxAgeMs, onRefused, () => this.#open.delete(carrier));
      this.#open.add(carrier);
      this.#carrier = carrier;
    }
    return this.#carrier.begin(call);
  }

  /** Calls under way go on. */
  end(): void {
    this.#carrier?.end();
    this.#carrier = undefined;
  }

  /** Ends calls that are under way. */
  close(): void {
    for (const carrier of this.#open) carrier.cancel();
    this.#carrier = undefined;
  }
}

interface Carried {
  readonly call: CallToCarry;
  readonly timer: NodeJS.Timeout | undefined;
  /** The call by itself, where it could not be carried. */
  alone: BegunCall | undefined;
}

/** One stream, and the calls that are under way on it. */
class Carrier {
  readonly #link: Link;
  readonly #stream: ClientDuplexStream<unknown, CarryResponse> & LinkedCall;
  readonly #carried = new Map<number, Carried>();
  #lastNumber = 0;
  /** Whether no further call begins here. */
  #isLeft = false;
  #isOver = false;

  constructor(link: Link, maxAgeMs: number, onRefused: () => void, onOver: () => void) {
    this.#link = link;
    const age = setTimeout(() => this.end(), maxAgeMs).unref();
    const { path, requestSerialize, responseDeserialize } = CARRY;
    const stream = link.client.makeBidiStreamRequest(
      path,
      requestSerialize,
      responseDeserialize as (bytes: Buffer) => CarryResponse,
      new Metadata(),
      {},
    );
    this.#stream = link.begun(stream as typeof stream & LinkedCall);
    // What it says is in the status as well.
    this.#stream.on("error", () => {});
    this.#stream.on("data", (response: CarryResponse) => this.#hear(response));
    this.#stream.once("status", (ended: StatusObject) => {
      this.#isOver = true;
      clearTimeout(age);
      onOver();
      const isRefused = ended.code === status.UNIMPLEMENTED;
      if (isRefused) onRefused();
      for (const number of [...this.#carried.keys()]) {
        if (isRefused) this.#makeAlone(number);
        else this.#settle(number, failureOf(saysNothingOfCalls(ended) ? CUT_OFF : ended));
      }
    });
  }

  /** Whether calls over that link may begin here. */
  isFor(link: Link): boolean {
    return link === this.#link && !this.#isOver && !this.#isLeft;
  }

  /** Once the calls under way have ended: until then they may have to be cancelled. */
  end(): void {
    this.#isLeft = true;
    if (this.#carried.size === 0) this.#stream.end();
  }

  cancel(): void {
    this.#stream.cancel();
  }

  begin(call: CallToCarry): BegunCall {
    this.#lastNumber += 1;
    const number = this.#lastNumber;
    const { path, request, metadata, deadlineAtMs } = call;
    const timeoutMs = deadlineAtMs === undefined ? 0 : timeUntil(deadlineAtMs);
    const late = () => this.#give(number, status.DEADLINE_EXCEEDED, "Deadline exceeded");
    const timer = deadlineAtMs === undefined ? undefined : setTimeout(late, timeoutMs);
    const carried: Carried = { call, timer, alone: undefined };
    this.#carried.set(number, carried);
    const value = { path, request, timeoutMs, metadata: metadata.getMap() };
    this.#stream.write({ callNumber: number, what: { $case: "call", value } });
    return {
      cancel: () => {
        if (carried.alone) carried.alone.cancel();
        else this.#give(number, status.CANCELLED, "Cancelled on client");
      },
      getAuthContext: () => (carried.alone ?? this.#stream).getAuthContext(),
    };
  }

  #hear({ callNumber, outcome }: CarryResponse): void {
    if (outcome?.$case === "response") this.#settle(callNumber, null, outcome.value);
    else if (outcome?.$case === "failure") {
      const { code, message, statusDetails } = outcome.value;
      const metadata = new Metadata();
      if (statusDetails.length > 0) metadata.set("grpc-status-details-bin", statusDetails);
      this.#settle(callNumber, failureOf({ code, details: message, metadata }));
    }
  }

  /** The caller does not wait any more, and the server is told. */
  #give(number: number, code: status, details: string): void {
    if (!this.#carried.has(number)) return;
    this.#stream.write({ callNumber: number, what: { $case: "cancel", value: true } });
    this.#settle(number, failureOf({ code, details, metadata: new Metadata() }));
  }

  #makeAlone(number: number): void {
    const carried = this.#carried.get(number);
    this.#carried.delete(number);
    clearTimeout(carried?.timer);
    if (carried) carried.alone = carried.call.instead();
  }

  #settle(number: number, error: ServiceError | null, response?: Buffer): void {
    const carried = this.#carried.get(number);
    if (!this.#carried.delete(number)) return;
    clearTimeout(carried?.timer);
    if (this.#isLeft) this.end();
    carried?.call.callback(error, response);
  }
}

function timeUntil(atMs: number): number {
  return Math.min(MAX_TIMEOUT_MS, Math.max(1, Math.ceil(atMs - Date.now())));
}

/** A server that stops ended the stream, or took a message on it for none: either way it may have done what it was asked. */
function saysNothingOfCalls({ code }: StatusObject): boolean {
  return code === status.OK || code === status.INVALID_ARGUMENT;
}

const CUT_OFF = {
  code: status.UNAVAILABLE,
  details: "the stream that carried the call has ended",
  metadata: new Metadata(),
};

function failureOf({ code, details, metadata }: StatusObject): ServiceError {
  return Object.assign(new Error(details), { code, details, metadata });
}
