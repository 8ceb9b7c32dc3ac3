import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Server } from "@grpc/grpc-js";

type StreamHandler = (interceptors: unknown, stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;

export interface StreamGuard {
  onOpened(stream: ServerHttp2Stream): void;
  onBroken(error: unknown): void;
}

// Everything that diskmesh takes from grpc-js beside its public API is in this file.

/**
 * Returns the HTTP/2 stream of a call. The public way, getAuthContext (https://github.com/grpc/grpc-node/issues/2730),
 * parses the whole certificate for each call and does not name the connection.
 */
export function streamOfCall(call: object): ServerHttp2Stream | undefined {
  return (call as { call?: { stream?: ServerHttp2Stream } }).call?.stream;
}

/**
 * Stands before all that grpc-js does with a new stream. Node can tell of a stream after its client has reset it. The
 * mending of https://github.com/grpc/grpc-node/issues/1871 left two places out: grpc-js 1.14 answers unregistered methods
 * and wrong content types without looking whether it still can. That throws where nobody catches, and ends the process.
 * Call it before the server accepts connections.
 */
export function guardStreams(server: Server, guard: StreamGuard): void {
  const inner = server as unknown as { _streamHandler?: StreamHandler };
  const serve = inner._streamHandler;
  // A version of grpc-js that names it otherwise must not leave the server unguarded unnoticed.
  if (typeof serve !== "function") throw new Error("grpc-js has no _streamHandler to guard any more");
  inner._streamHandler = (interceptors, stream, headers) => {
    stream.on("error", ignore);
    closeWhenAnswered(stream);
    if (stream.destroyed || stream.closed) return;
    try {
      guard.onOpened(stream);
      serve.call(server, interceptors, stream, headers);
    } catch (error) {
      guard.onBroken(error);
      // In a turn of its own: Node, in the middle of receiving, uses a stream after it has freed it.
      setImmediate(() => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    }
  };
}

/**
 * Once answered, a client that goes on sending is told to stop; grpc-js would keep its stream for as long as it likes. The
 * answer has left only when its trailers have: the end of its body says nothing of them.
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

// An error that nobody listens to would end the process; whoever serves the stream learns of its end by "close".
function ignore(): void {}
