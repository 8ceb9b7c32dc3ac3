import type { Socket } from "node:net";

/** Thrown when the peer ended the connection between two messages or in the middle of one. */
export class ConnectionEndedError extends Error {
  override readonly name = "ConnectionEndedError";
}

/** Reads exact numbers of bytes from a socket; what nobody asked for yet is not read from the kernel beyond a buffer. */
export class ByteReader {
  readonly #socket: Socket;
  #wake: (() => void) | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    const wake = () => this.#wake?.();
    for (const event of ["readable", "end", "close", "error"]) socket.on(event, wake);
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
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }
}
