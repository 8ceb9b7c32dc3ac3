import { setImmediate as nextTurn } from "node:timers/promises";
import { CancelledError, InvalidArgumentError, messageOf, TimeoutError } from "@diskmesh/domain";
import type {
  handleClientStreamingCall,
  handleServerStreamingCall,
  handleUnaryCall,
  Metadata,
  UntypedHandleCall,
} from "@grpc/grpc-js";
import { context } from "@opentelemetry/api";
import type { ActiveCall, CallContext } from "../call/call-context.js";
import { describeCall } from "../call/tracing.js";
import type { AdmittedCall, CallGate, GatedMethod } from "./call-gate.js";

type UnaryHandler = (request: unknown, call: CallContext) => Promise<unknown>;
type ServerStreamHandler = (request: unknown, call: CallContext) => AsyncIterable<unknown>;
type ClientStreamHandler = (requests: AsyncIterable<unknown>, call: CallContext) => Promise<unknown>;

/**
 * Stands for an undecodable request until the caller's permission is checked, because only a permitted caller gets the
 * reason.
 */
class Undecodable {
  constructor(readonly error: unknown) {}
}

/** Wraps a generated decoder, because grpc-js would report its exceptions as INTERNAL. */
export function tolerantDecoder(decode: (bytes: Buffer) => unknown): (bytes: Buffer) => unknown {
  return (bytes) => {
    try {
      return decode(bytes);
    } catch (error) {
      return new Undecodable(error);
    }
  };
}

/** Returns the decoded request of a call, and adds the object that the request names to the span. */
function onlyRequest(request: unknown, { active, traced }: AdmittedCall, path: string): unknown {
  const only = decoded(request, path);
  active.request = only;
  describeCall(traced, only, active.requestId);
  return only;
}

/** Throws InvalidArgumentError for an undecodable request. */
export function decoded(request: unknown, path: string): unknown {
  if (!(request instanceof Undecodable)) return request;
  const { error } = request;
  throw new InvalidArgumentError(`the request of ${path} cannot be decoded: ${messageOf(error)}`, {
    about: { method: path, ...(error instanceof InvalidArgumentError && error.about) },
  });
}

interface ServedMethod extends GatedMethod {
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  /** Encodes a response. grpc-js would not log a response that it cannot encode. */
  readonly encode: (response: unknown) => Buffer;
}

/** Called when the first message of a grpc-js call has arrived. */
export type OnHeard = (call: object) => void;

/** Converts a handler to a grpc-js handler. The kind of `handler` must match the two flags. */
export function serveMethod(
  gate: CallGate,
  method: ServedMethod,
  onHeard: OnHeard,
  handler: unknown,
): UntypedHandleCall {
  if (method.requestStream) return serveClientStream(gate, method, onHeard, handler as ClientStreamHandler);
  return method.responseStream
    ? serveServerStream(gate, method, onHeard, handler as ServerStreamHandler)
    : serveUnary(gate, method, onHeard, handler as UnaryHandler);
}

function serveUnary(
  gate: CallGate,
  method: ServedMethod,
  onHeard: OnHeard,
  handler: UnaryHandler,
): handleUnaryCall<unknown, unknown> {
  return (call, callback) => {
    onHeard(call);
    const admitted = gate.admit(method, call, (failure) => callback(failure));
    if (!admitted) return;
    watchCancel(call, admitted.active);
    void answerOnce(admitted, method, callback, () =>
      handler(onlyRequest(call.request, admitted, method.path), admitted.active),
    );
  };
}

function serveClientStream(
  gate: CallGate,
  method: ServedMethod,
  onHeard: OnHeard,
  handler: ClientStreamHandler,
): handleClientStreamingCall<unknown, unknown> {
  return (call, callback) => {
    const admitted = gate.admit(method, call, (failure) => callback(failure));
    if (!admitted) return;
    watchCancel(call, admitted.active);
    const requests = requestsOf(call, method, admitted.active, onHeard);
    void answerOnce(admitted, method, callback, () => handler(requests, admitted.active));
  };
}

/**
 * Runs the handler of an admitted call, and calls back with the encoded answer unless the call has failed meanwhile.
 */
async function answerOnce(
  admitted: AdmittedCall,
  method: ServedMethod,
  callback: (error: null, response: Buffer) => void,
  run: () => Promise<unknown>,
): Promise<void> {
  const { active, traced } = admitted;
  try {
    const response = await context.with(traced.context, run);
    const encoded = method.encode(response);
    if (active.takeAnswer()) {
      admitted.succeed(response);
      callback(null, encoded);
    }
  } catch (error) {
    active.fail(error);
  } finally {
    admitted.release();
  }
}

function serveServerStream(
  gate: CallGate,
  method: ServedMethod,
  onHeard: OnHeard,
  handler: ServerStreamHandler,
): handleServerStreamingCall<unknown, unknown> {
  return (call) => {
    onHeard(call);
    const admitted = gate.admit(method, call, (failure) => call.emit("error", failure));
    if (!admitted) return;
    watchCancel(call, admitted.active);
    void answerStream(admitted, method, call, () =>
      handler(onlyRequest(call.request, admitted, method.path), admitted.active),
    );
  };
}

interface ResponseStream {
  write(message: Buffer): boolean;
  end(metadata?: Metadata): void;
  once(event: "drain" | "cancelled", listener: () => void): unknown;
  off(event: "drain" | "cancelled", listener: () => void): unknown;
}

async function answerStream(
  admitted: AdmittedCall,
  method: ServedMethod,
  stream: ResponseStream,
  run: () => AsyncIterable<unknown>,
): Promise<void> {
  const { active, traced } = admitted;
  try {
    // The whole loop runs within the span, because a generator's body runs in the context of the caller that requests
    // the next item.
    await context.with(traced.context, async () => {
      for await (const response of run()) {
        if (active.answered) return;
        if (!stream.write(method.encode(response))) await writable(stream);
        active.touch();
        if (active.answered) return;
      }
    });
    if (active.takeAnswer()) {
      admitted.succeed(undefined);
      stream.end();
    }
  } catch (error) {
    active.fail(error);
  } finally {
    admitted.release();
  }
}

/** Resolves when the stream accepts further writes or has ended. */
function writable(stream: ResponseStream): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off("drain", done);
      stream.off("cancelled", done);
      resolve();
    };
    stream.once("drain", done);
    stream.once("cancelled", done);
  });
}

const TURNS_UNTIL_CANCELLED = 3;

interface RequestStream {
  iterator(options: { destroyOnReturn: boolean }): AsyncIterable<unknown>;
}

async function* requestsOf(
  stream: RequestStream,
  method: GatedMethod,
  active: ActiveCall,
  onHeard: OnHeard,
): AsyncGenerator<unknown> {
  try {
    // With destroyOnReturn, an early return would destroy the stream before its answer.
    for await (const request of stream.iterator({ destroyOnReturn: false })) {
      onHeard(stream);
      active.touch();
      yield decoded(request, method.path);
    }
    // Node ends a stream before it resets it, so the requests of a cancelled call end two turns before the cancellation
    // is reported. Without the wait, the handler would take a part of the requests for all of them.
    for (let turn = 0; turn < TURNS_UNTIL_CANCELLED; turn++) await nextTurn();
    if (active.aborted) throw active.aborted;
  } catch (error) {
    // The abort reason is thrown instead of the error of a destroyed stream.
    throw active.aborted ?? error;
  }
}

// grpc-js emits "cancelled" after every call, also after an answered one, which needs no abort.
function watchCancel(call: { once(event: "cancelled", listener: () => void): unknown }, active: ActiveCall): void {
  call.once("cancelled", () => {
    if (active.answered) return;
    active.abort(
      Date.now() >= active.deadlineAtMs
        ? new TimeoutError("the client's deadline has passed")
        : new CancelledError("the client cancelled the call or its connection was lost"),
    );
  });
}
