import {
  CancelledError,
  DomainError,
  InvalidArgumentError,
  messageOf,
  ResourceExhaustedError,
  type Role,
  UnavailableError,
} from "@diskmesh/domain";
import { CurrentTls, type TlsFiles } from "@diskmesh/tls";
import "../call/quiet-grpc.js";
import { connectivityState, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import type { CallOptions, MethodDefinition } from "../call/definition.js";
import { DEFAULT_RPC_SERVER_LIMITS } from "../call/limits.js";
import { REQUEST_ID_HEADER, REQUEST_ID_PATTERN } from "../call/request-id.js";
import {
  describeCall,
  endCall,
  type ServerAttributes,
  serverAttributesOf,
  startClientSpan,
  type TracedCall,
} from "../call/tracing.js";
import { errorOfStatus, ServedElsewhereError } from "../errors/error-of-status.js";
import { Link, type LinkedCall } from "./link.js";

export interface ClientOptions {
  /** `host:port` of the server, or of several servers of which one leads; the client finds and follows the leader. */
  readonly address: string | readonly string[];
  readonly tls: TlsFiles;
  /** Role that the server's certificate must have; host names in the certificate are ignored. */
  readonly serverRole: Role;
  /** Name that must follow the role, e.g. the host id of an agent. */
  readonly serverName?: string;
  /** Deadline of unary calls that set none, in milliseconds. Streams that set none have no deadline. */
  readonly defaultDeadlineMs: number;
  readonly maxMessageBytes?: number;
  /**
   * Called at each failed connection attempt. The RPC then tries other servers until its deadline, so it fails much
   * later or not at all.
   */
  readonly onUnreached?: (address: string, error: Error) => void;
}

export interface ChannelOptions extends ClientOptions {
  readonly address: string;
}

const pass = (bytes: Buffer): Buffer => bytes;

/** Returns the error of a call that was not sent because the client is closed. */
export function closedError(address: string): UnavailableError {
  return new UnavailableError(`${address} was not called: the client is closed`, { about: { address } });
}

/** Connection to one server, and the calls on it. */
export class ClientChannel {
  readonly #maxMessageBytes: number;
  readonly #tls: CurrentTls;
  readonly #server: ServerAttributes;
  #link: Link;
  #isClosed = false;

  constructor(private readonly options: ChannelOptions) {
    this.#maxMessageBytes = options.maxMessageBytes ?? DEFAULT_RPC_SERVER_LIMITS.maxMessageBytes;
    this.#tls = CurrentTls.open(options.tls);
    this.#server = serverAttributesOf(options.address);
    this.#link = this.#connectAnew();
    this.#tls.onChange(() => this.#link.endIfRevoked());
  }

  /** Refuses further calls. The connection closes when the last call has ended. */
  close(): void {
    this.#isClosed = true;
    this.#link.retire();
    this.#tls.close();
  }

  /**
   * Throws ServedElsewhereError when the connection is not established in time. An aborted signal ends the wait early.
   */
  async connect(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const untilMs = Date.now() + timeoutMs;
    for (;;) {
      // Calling connect on a closed grpc-js channel would reopen it.
      if (this.#isClosed) throw closedError(this.options.address);
      // An aborted RPC fails with CANCELLED when it is sent, so the wait ends without an error.
      if (signal?.aborted) return;
      const channel = this.#current().client.getChannel();
      const state = channel.getConnectivityState(true);
      // The channel is connected, or its last connection attempt failed. In the latter case the RPC fails with the
      // reason.
      if (state !== connectivityState.IDLE && state !== connectivityState.CONNECTING) return;
      let unlisten: () => void = nothing;
      const changed = await new Promise<boolean>((resolve) => {
        unlisten = cancelOnAbort({ cancel: () => resolve(true) }, signal);
        channel.watchConnectivityState(state, untilMs, (error) => resolve(error === undefined));
      });
      unlisten();
      if (changed) continue;
      const { address } = this.options;
      const text = `${address} cannot be reached: no connection within ${timeoutMs} ms`;
      throw new ServedElsewhereError(text, { about: { address } }, "", false);
    }
  }

  async unary(method: MethodDefinition, request: unknown, options: CallOptions = {}): Promise<unknown> {
    refuseAborted(method, options);
    const bytes = this.#encode(method, request);
    const outgoing = this.#outgoing(method, options, this.options.defaultDeadlineMs);
    describeCall(outgoing.traced, request, options.requestId);
    const link = this.#current();
    return this.#answer(method, options, outgoing, (callback) => {
      const { metadata, options: callOptions } = outgoing;
      return link.begun(link.client.makeUnaryRequest(method.path, pass, pass, bytes, metadata, callOptions, callback));
    });
  }

  async clientStream(
    method: MethodDefinition,
    requests: AsyncIterable<unknown>,
    options: CallOptions = {},
  ): Promise<unknown> {
    refuseAborted(method, options);
    const outgoing = this.#outgoing(method, options, undefined);
    const link = this.#current();
    let failure: unknown;
    try {
      return await this.#answer(method, options, outgoing, (callback) => {
        const { metadata, options: callOptions } = outgoing;
        const call = link.begun(
          link.client.makeClientStreamRequest(method.path, pass, pass, metadata, callOptions, callback),
        );
        this.#pump(method, requests, call).catch((error: unknown) => {
          failure = error;
        });
        return call;
      });
    } catch (error) {
      // When the caller's iterable failed, that error is thrown, because it caused the cancellation.
      throw failure ?? error;
    }
  }

  async *serverStream(method: MethodDefinition, request: unknown, options: CallOptions = {}): AsyncGenerator<unknown> {
    refuseAborted(method, options);
    const bytes = this.#encode(method, request);
    const outgoing = this.#outgoing(method, options, undefined);
    describeCall(outgoing.traced, request, options.requestId);
    const { metadata, options: callOptions } = outgoing;
    const link = this.#current();
    const call = link.begun(link.client.makeServerStreamRequest(method.path, pass, pass, bytes, metadata, callOptions));
    yield* this.#responses(method, options, outgoing.traced, call);
  }

  /** Returns a link with the current TLS files; calls on the former link are completed there. */
  #current(): Link {
    if (!this.#link.isCurrent && !this.#isClosed) {
      this.#link.retire();
      this.#link = this.#connectAnew();
    }
    return this.#link;
  }

  #connectAnew(): Link {
    return new Link({ ...this.options, maxMessageBytes: this.#maxMessageBytes }, this.#tls);
  }

  #outgoing(method: MethodDefinition, options: CallOptions, defaultDeadlineMs: number | undefined): Outgoing {
    const metadata = new Metadata();
    const { requestId } = options;
    if (requestId !== undefined && REQUEST_ID_PATTERN.test(requestId)) metadata.set(REQUEST_ID_HEADER, requestId);
    const deadlineMs = options.deadlineMs ?? defaultDeadlineMs;
    return {
      metadata,
      options: deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs },
      traced: startClientSpan(method.path, metadata, this.#server),
    };
  }

  #answer(
    method: MethodDefinition,
    options: CallOptions,
    outgoing: Outgoing,
    start: (callback: (error: ServiceError | null, bytes?: Buffer) => void) => LinkedCall,
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      let unlisten: () => void = nothing;
      const call = start((error, bytes) => {
        unlisten();
        const failure = error && this.#errorOf(method, error, call, options.signal);
        endCall(outgoing.traced, error?.code ?? status.OK, failure ?? undefined);
        if (failure) reject(failure);
        else
          try {
            resolve(method.responseDeserialize(bytes as Buffer));
          } catch (undecodable) {
            reject(this.#undecodable(method, undecodable));
          }
      });
      unlisten = cancelOnAbort(call, options.signal);
    });
  }

  async *#responses(
    method: MethodDefinition,
    options: CallOptions,
    traced: TracedCall,
    call: LinkedCall & AsyncIterable<Buffer>,
  ): AsyncGenerator<unknown> {
    const unlisten = cancelOnAbort(call, options.signal);
    let ended = false;
    try {
      for await (const bytes of call) yield this.#decode(method, bytes);
      ended = true;
      endCall(traced, status.OK);
    } catch (error) {
      ended = true;
      const failure =
        error instanceof DomainError ? error : this.#errorOf(method, error as ServiceError, call, options.signal);
      endCall(traced, (error as Partial<ServiceError>).code ?? status.INTERNAL, failure);
      throw failure;
    } finally {
      unlisten();
      // Also runs when the caller stops reading early; the cancellation then stops the server's handler.
      if (!ended) endCall(traced, status.CANCELLED);
      call.cancel();
    }
  }

  /**
   * Sends the items of the caller's iterable at the speed at which the server reads. When the iterable fails, the call
   * is cancelled.
   */
  async #pump(method: MethodDefinition, requests: AsyncIterable<unknown>, call: RequestSink): Promise<void> {
    let over = false;
    call.once("status", () => {
      over = true;
    });
    try {
      for await (const request of requests) {
        if (over) return;
        if (!call.write(this.#encode(method, request))) await drained(call, () => over);
        if (over) return;
      }
      call.end();
    } catch (error) {
      call.cancel();
      throw error;
    }
  }

  #encode(method: MethodDefinition, request: unknown): Buffer {
    const bytes = encodeRequest(method, request);
    if (bytes.length <= this.#maxMessageBytes) return bytes;
    throw new ResourceExhaustedError(
      `the request of ${method.path} has ${bytes.length} bytes: the limit is ${this.#maxMessageBytes} (maxMessageBytes)`,
      { about: { method: method.path } },
    );
  }

  #decode(method: MethodDefinition, bytes: Buffer): unknown {
    try {
      return method.responseDeserialize(bytes);
    } catch (error) {
      throw this.#undecodable(method, error);
    }
  }

  #undecodable(method: MethodDefinition, error: unknown): DomainError {
    const details = `the answer cannot be decoded: ${messageOf(error)}`;
    return errorOfStatus({
      ...this.#where(method),
      code: status.INTERNAL,
      details,
      metadata: new Metadata(),
      sent: true,
    });
  }

  #errorOf(method: MethodDefinition, error: ServiceError, call: LinkedCall, signal?: AbortSignal): DomainError {
    if (error.code === status.CANCELLED && signal?.aborted) return cancelled(method, signal);
    const { code = status.UNKNOWN, details = messageOf(error), metadata = new Metadata() } = error;
    // The authentication context is null only when the call never had a connection, so nothing was sent.
    const sent = code !== status.UNAVAILABLE || call.getAuthContext() !== null;
    return errorOfStatus({ ...this.#where(method), code, details, metadata, sent });
  }

  #where(method: MethodDefinition): { method: string; address: string } {
    return { method: method.path, address: this.options.address };
  }
}

interface Outgoing {
  readonly metadata: Metadata;
  readonly options: { deadline?: number };
  readonly traced: TracedCall;
}

interface RequestSink extends Pick<LinkedCall, "cancel"> {
  write(bytes: Buffer): boolean;
  end(): void;
  once(event: "status" | "drain", listener: () => void): unknown;
  off(event: "status" | "drain", listener: () => void): unknown;
}

const nothing = (): void => {};

function encodeRequest(method: MethodDefinition, request: unknown): Buffer {
  try {
    return method.requestSerialize(request);
  } catch (error) {
    throw new InvalidArgumentError(`the request of ${method.path} cannot be encoded: ${messageOf(error)}`, {
      about: { method: method.path },
      cause: error,
    });
  }
}

function refuseAborted(method: MethodDefinition, options: CallOptions): void {
  if (options.signal?.aborted) throw cancelled(method, options.signal);
}

function cancelled(method: MethodDefinition, signal: AbortSignal): CancelledError {
  return new CancelledError(`${method.path} was cancelled: ${messageOf(signal.reason)}`, { cause: signal.reason });
}

function cancelOnAbort(call: Pick<LinkedCall, "cancel">, signal: AbortSignal | undefined): () => void {
  if (!signal) return nothing;
  const cancel = (): void => call.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  return () => signal.removeEventListener("abort", cancel);
}

function drained(call: RequestSink, isOver: () => boolean): Promise<void> {
  if (isOver()) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      call.off("drain", done);
      call.off("status", done);
      resolve();
    };
    call.once("drain", done);
    call.once("status", done);
  });
}
