import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Server } from "@grpc/grpc-js";

type StreamHandler = (interceptors: unknown, stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;

/**
 * Stands before all that grpc-js does with a new stream. Node can tell of a stream after its client has reset it, and
 * grpc-js 1.14 answers unregistered methods and wrong content types without looking whether it still can: that throws
 * where nobody catches, and ends the process. Call it before the server accepts connections.
 */
export function guardStreams(server: Server, onBroken: (error: unknown) => void): void {
  const inner = server as unknown as { _streamHandler?: StreamHandler };
  const serve = inner._streamHandler;
  // A version of grpc-js that names it otherwise must not leave the server unguarded unnoticed.
  if (typeof serve !== "function") throw new Error("grpc-js has no _streamHandler to guard any more");
  inner._streamHandler = (interceptors, stream, headers) => {
    stream.on("error", ignore);
    if (stream.destroyed || stream.closed) return;
    try {
      serve.call(server, interceptors, stream, headers);
    } catch (error) {
      onBroken(error);
      stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    }
  };
}

// An error that nobody listens to would end the process; whoever serves the stream learns of its end by "close".
function ignore(): void {}
