import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Server } from "@grpc/grpc-js";

type StreamHandler = (interceptors: unknown, stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;

export interface StreamGuard {
  onOpened(stream: ServerHttp2Stream): void;
  onBroken(error: unknown): void;
}

// All use of grpc-js beyond its public API is in this file.

/**
 * Returns the HTTP/2 stream of a call. The public way, getAuthContext (https://github.com/grpc/grpc-node/issues/2730),
 * parses the whole certificate for each call and does not name the connection.
 */
export function streamOfCall(call: object): ServerHttp2Stream | undefined {
  return (call as { call?: { stream?: ServerHttp2Stream } }).call?.stream;
}

/**
 * Wraps grpc-js's handler of new streams, because Node can report a stream after its client has reset it. grpc-js 1.14
 * answers unregistered methods and wrong content types without checking for a reset (the fix of
 * https://github.com/grpc/grpc-node/issues/1871 missed these two places). The answer then throws an uncaught error,
 * which ends the process. Must be called before the server accepts connections.
 */
export function guardStreams(server: Server, guard: StreamGuard): void {
  const inner = server as unknown as { _streamHandler?: StreamHandler };
  const serve = inner._streamHandler;
  // A grpc-js release that renames the field must not leave the server unguarded without notice.
  if (typeof serve !== "function") throw new Error("grpc-js no longer has _streamHandler, which the server guards");
  inner._streamHandler = (interceptors, stream, headers) => {
    stream.on("error", ignore);
    closeWhenAnswered(stream);
    if (stream.destroyed || stream.closed) return;
    try {
      guard.onOpened(stream);
      serve.call(server, interceptors, stream, headers);
    } catch (error) {
      guard.onBroken(error);
      // Deferred to its own turn, because Node uses a stream after freeing it when the stream is closed during a
      // receive.
      setImmediate(() => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    }
  };
}

/**
 * Closes a stream after its answer, because grpc-js would keep it open for as long as the client keeps sending. The
 * close waits for the trailers, which may be sent after the end of the body.
 */
function closeWhenAnswered(stream: ServerHttp2Stream): void {
  const close = (): void => {
    if (!stream.readableEnded && !stream.closed) stream.close(constants.NGHTTP2_NO_ERROR);
  };
  const { sendTrailers, respond } = stream;
  stream.sendTrailers = (trailers) => {
    sendTrailers.call(stream, trailers);
    setImmediate(close);
  };
  stream.respond = (headers, options) => {
    respond.call(stream, headers, options);
    if (options?.endStream) setImmediate(close);
  };
}

// Prevents an unhandled "error" event, which would end the process. The code that serves the stream handles "close".
function ignore(): void {}
