import type { Socket } from "node:net";
import { Watch } from "@diskmesh/service";

const EVENTS = ["readable", "end", "close", "error"] as const;

/** Thrown when the peer closed the connection, between two messages or within one. */
export class ConnectionEndedError extends Error {
  override readonly name = "ConnectionEndedError";
}

/** Reads exact numbers of bytes from a socket. Buffers at most one chunk beyond the request. */
export class ByteReader {
  readonly #socket: Socket;
  readonly #something = new Watch();

  readonly #touch = () => this.#something.touch();

  constructor(socket: Socket) {
    this.#socket = socket;
    for (const event of EVENTS) socket.on(event, this.#touch);
  }

  /** Stops listening to the socket, so that another reader, or TLS, takes the bytes that follow. */
  release(): void {
    for (const event of EVENTS) this.#socket.off(event, this.#touch);
  }

  async read(lengthBytes: number): Promise<Buffer> {
    if (lengthBytes === 0) return Buffer.alloc(0);
    for (;;) {
      const chunk: Buffer | null = this.#socket.read(lengthBytes);
      if (chunk !== null) {
        if (chunk.length === lengthBytes) return chunk;
        throw new ConnectionEndedError("the connection ended within a message");
      }
      if (this.#socket.readableEnded || this.#socket.destroyed) throw new ConnectionEndedError("the connection ended");
      await this.#something.changed();
    }
  }
}
