import type { CarriedCall, CarryRequest, CarryResponse } from "@diskmesh/api/rpc";
import { CancelledError, InvalidArgumentError, messageOf, TimeoutError } from "@diskmesh/domain";
import { Metadata, type Server, status } from "@grpc/grpc-js";
import type { ActiveCall } from "./call-context.js";
import type { AdmittedCall, CallGate } from "./call-gate.js";
import { ANSWER_MARGIN_BYTES, CARRIER_MARGIN_BYTES, CARRY } from "./carrier-method.js";
import type { RpcServerLimits } from "./limits.js";
import { callerOfStream, streamOfCall } from "./peer-identity.js";
import {
  answerOnce,
  decoded,
  type OnHeard,
  onlyRequest,
  type ServedMethod,
  tolerantDecoder,
  type UnaryHandler,
} from "./serve.js";
import { type GrpcStatus, statusOfError } from "./status-of-error.js";

export interface CarrierServerOptions {
  readonly limits: Pick<RpcServerLimits, "maxMessageBytes" | "maxStreamsPerPeer">;
  readonly gate: Pick<CallGate, "admit">;
  readonly onHeard: OnHeard;
}

/** A method whose calls may be carried. */
export interface CarriedMethod {
  readonly method: ServedMethod;
  readonly decode: (bytes: Buffer) => unknown;
  readonly handler: UnaryHandler;
}

const STATUS_DETAILS = "grpc-status-details-bin";

/** The stream of grpc-js that carries calls. */
interface CarrierStream {
  on(event: "data", listener: (request: unknown) => void): unknown;
  once(event: "end" | "cancelled" | "drain", listener: () => void): unknown;
  emit(event: "error", failure: GrpcStatus): unknown;
  write(response: CarryResponse): boolean;
  end(): void;
  pause(): void;
  resume(): void;
}

/**
 * Serves calls that are carried on a stream of their caller's: each passes the gate as one that came by itself does, so
 * that roles, limits, deadlines, the log, traces and metrics know no difference.
 */
export class CarrierServer {
  readonly #options: CarrierServerOptions;
  readonly #methods = new Map<string, CarriedMethod>();
  /** Each with its caller's name. */
  readonly #open = new Map<Carrier, string>();

  constructor(options: CarrierServerOptions) {
    this.#options = options;
  }

  addMethod(method: CarriedMethod): void {
    this.#methods.set(method.method.path, method);
  }

  addToServer(server: Pick<Server, "addService">): void {
    const carry = { ...CARRY, requestDeserialize: tolerantDecoder(CARRY.requestDeserialize) };
    server.addService({ carry } as never, { carry: (stream: CarrierStream) => this.#opened(stream) } as never);
  }

  /** Ends the streams. Call it when no call is under way any more. */
  end(): void {
    for (const carrier of this.#open.keys()) carrier.end();
  }

  #opened(stream: CarrierStream): void {
    try {
      const { name } = callerOfStream(streamOfCall(stream));
      const { maxStreamsPerPeer } = this.#options.limits;
      const count = [...this.#open.values()].filter((each) => each === name).length;
      if (count >= maxStreamsPerPeer) {
        stream.emit("error", notCarried(`${name} has ${count} streams that carry calls: rpc.maxStreamsPerPeer`));
        return;
      }
      const carrier = new Carrier(stream, this.#methods, this.#options);
      this.#open.set(carrier, name);
      stream.once("cancelled", () => {
        this.#open.delete(carrier);
        carrier.cancel();
      });
    } catch (error) {
      stream.emit("error", statusOfError(error, "none"));
    }
  }
}

/** One stream of a caller, and the calls that are under way on it. */
class Carrier {
  readonly #running = new Map<number, ActiveCall>();
  /** Whether the caller begins no more calls. */
  #isLeft = false;
  #isOver = false;
  /** Whether answers wait for the caller to read. */
  #isFull = false;
  /** Whether the caller broke the protocol: what it sent behind that begins nothing. */
  #isBroken = false;

  constructor(
    private readonly stream: CarrierStream,
    private readonly methods: ReadonlyMap<string, CarriedMethod>,
    private readonly options: CarrierServerOptions,
  ) {
    stream.on("data", (request) => {
      options.onHeard(stream);
      if (this.#isBroken || this.#isOver) return;
      try {
        this.#heed(decoded(request, "Carry") as CarryRequest);
      } catch (error) {
        this.#isBroken = true;
        stream.emit("error", statusOfError(error, "none"));
      }
    });
    stream.once("end", () => {
      this.#isLeft = true;
      this.#endIfIdle();
    });
  }

  /** The stream is gone. */
  cancel(): void {
    this.#isOver = true;
    for (const active of this.#running.values())
      active.abort(new CancelledError("the client cancelled the call or its connection was lost"));
  }

  end(): void {
    this.#isOver = true;
    this.stream.end();
  }

  #heed({ callNumber, what }: CarryRequest): void {
    if (what?.$case === "cancel") {
      this.#running.get(callNumber)?.abort(new CancelledError("the client cancelled the call"));
      return;
    }
    if (what === undefined || this.#running.has(callNumber))
      throw new InvalidArgumentError("a message begins no call, or one whose number another call has");
    this.#begin(callNumber, what.value);
  }

  #begin(callNumber: number, { path, request, timeoutMs, metadata }: CarriedCall): void {
    const fail = (failure: GrpcStatus): void => this.#fail(callNumber, failure);
    const served = this.methods.get(path);
    if (served === undefined) {
      fail({ code: status.UNIMPLEMENTED, details: `no method ${path}`.slice(0, 200), metadata: new Metadata() });
      return;
    }
    const deadlineAtMs = timeoutMs === 0 ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs;
    const admitted = this.#admit(served.method, metadata, deadlineAtMs, fail);
    if (!admitted) return;
    const { active } = admitted;
    this.#running.set(callNumber, active);
    // A deadline of the server's own is watched by the gate.
    const late = () => active.abort(new TimeoutError("the client's deadline has passed"));
    const timer = active.deadlineAtMs === deadlineAtMs ? setTimeout(late, timeoutMs) : undefined;
    const run = () => served.handler(onlyRequest(served.decode(request), admitted, path), active);
    void answerOnce(admitted, served.method, (_, response) => this.#answer(callNumber, response), run).finally(() => {
      clearTimeout(timer);
      this.#running.delete(callNumber);
      this.#endIfIdle();
    });
  }

  #admit(
    method: ServedMethod,
    headers: Readonly<Record<string, string>>,
    deadlineAtMs: number,
    fail: (failure: GrpcStatus) => void,
  ): AdmittedCall | undefined {
    try {
      const call = { stream: streamOfCall(this.stream) };
      const incoming = { call, metadata: metadataOf(headers), getDeadline: () => deadlineAtMs };
      return this.options.gate.admit(method, incoming, fail);
    } catch (error) {
      // Of this call alone: others on the stream go on.
      fail(statusOfError(error, "none"));
      return undefined;
    }
  }

  #answer(callNumber: number, response: Buffer): void {
    const maxBytes = this.options.limits.maxMessageBytes - ANSWER_MARGIN_BYTES;
    if (response.length <= maxBytes) this.#send({ callNumber, outcome: { $case: "response", value: response } });
    else {
      // As grpc-js has it, whose callers know that the work was done.
      const details = `Sent message larger than max (${response.length} vs. ${maxBytes})`;
      this.#fail(callNumber, { code: status.RESOURCE_EXHAUSTED, details, metadata: new Metadata() });
    }
  }

  #fail(callNumber: number, { code, details, metadata }: GrpcStatus): void {
    const [statusDetails = Buffer.alloc(0)] = metadata.get(STATUS_DETAILS) as Buffer[];
    this.#send({ callNumber, outcome: { $case: "failure", value: { code, message: details, statusDetails } } });
  }

  #send(response: CarryResponse): void {
    if (this.#isOver || this.#isBroken || this.stream.write(response) || this.#isFull) return;
    // Who does not read its answers begins no more calls.
    this.#isFull = true;
    this.stream.pause();
    this.stream.once("drain", () => {
      this.#isFull = false;
      this.stream.resume();
    });
  }

  #endIfIdle(): void {
    if (this.#isLeft && !this.#isOver && !this.#isBroken && this.#running.size === 0) this.end();
  }
}

/** As a server that carries nothing says it: a caller makes its calls by themselves then, of which none is refused for it. */
function notCarried(details: string): GrpcStatus {
  return { code: status.UNIMPLEMENTED, details, metadata: new Metadata() };
}

function metadataOf(headers: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata();
  const entries = Object.entries(headers);
  const length = entries.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (length > CARRIER_MARGIN_BYTES)
    throw new InvalidArgumentError(
      `the metadata of a carried call has ${length} characters: the limit is ${CARRIER_MARGIN_BYTES}`,
    );
  try {
    for (const [name, value] of entries) metadata.set(name, value);
  } catch (error) {
    throw new InvalidArgumentError(`the metadata of a carried call cannot be a header: ${messageOf(error)}`);
  }
  return metadata;
}
