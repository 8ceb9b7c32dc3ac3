import type { TLSSocket } from "node:tls";
import { expect } from "chai";
import { Bench } from "./testing/note-bench.js";

/**
 * Requests that grpc-js answers before any handler. Without guardStreams, the answer throws if the stream was reset
 * meanwhile.
 */
const REQUESTS: Readonly<Record<string, Record<string, string>>> = {
  "an unregistered method": { ":path": "/nowhere.v1.Nothing/Get", "content-type": "application/grpc" },
  "no method at all": { ":path": "", "content-type": "application/grpc" },
  "another content type": { ":path": "/test.v1.NoteService/Get", "content-type": "text/html" },
  "no content type": { ":path": "/test.v1.NoteService/Get" },
  "a malformed deadline": {
    ":path": "/test.v1.NoteService/Get",
    "content-type": "application/grpc",
    "grpc-timeout": "x",
  },
  "a role that may not": { ":path": "/test.v1.NoteService/Add", "content-type": "application/grpc" },
  "a method that serves it": { ":path": "/test.v1.NoteService/Get", "content-type": "application/grpc" },
};

describe("streams that were reset before their answer", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  for (const [what, headers] of Object.entries(REQUESTS))
    it(`do not break the server when they ask for ${what}`, async () => {
      await bench.serve();
      const peer = await Peer.connect(bench, "disk-agent-host-1");
      for (let round = 0; round < ROUNDS; round++) {
        // Sends several chunks at once, so that Node reads on while it writes the first answers.
        for (let piece = 0; piece < PIECES_PER_ROUND; piece++) peer.requestsAndResets(headers);
        await peer.pong();
      }
      peer.close();
      expect(await bench.client().get({ text: "here", count: 1 })).to.deep.equal({ text: "here", count: 1 });
      expect(bench.failures.filter(({ unexpected }) => unexpected)).to.deep.equal([]);
    });
});

const ROUNDS = 10;
const PIECES_PER_ROUND = 7;
const CALLS_PER_PIECE = 10;
const REFUSED_CALL = { ":path": "/test.v1.NoteService/Get", "content-type": "application/grpc", te: "trailers" };

const [DATA, HEADERS, RST_STREAM, SETTINGS, PING] = [0, 1, 3, 4, 6];
const [END_STREAM, END_HEADERS] = [1, 4];
const CANCEL = 8;

/** Writes HTTP/2 frames directly, so that a request and its reset arrive in one chunk, as on a busy machine. */
class Peer {
  #nextStreamId = 1;
  #received = Buffer.alloc(0);
  #onFrame: ((type: number) => void) | undefined;

  static async connect(bench: Bench, name: string): Promise<Peer> {
    const socket = bench.connectAs(name);
    await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
    return new Peer(socket);
  }

  private constructor(private readonly socket: TLSSocket) {
    socket.on("data", (bytes) => this.#receive(bytes)).on("error", () => {});
    socket.write(
      Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(SETTINGS, 0, 0, Buffer.alloc(0))]),
    );
  }

  /**
   * Sends calls that are refused at once, each followed by a request with these headers and its reset, in one chunk.
   * Node reads on while it writes the refusals, and reports new streams only after their resets.
   */
  requestsAndResets(headers: Record<string, string>): void {
    const pieces = Array.from({ length: CALLS_PER_PIECE }, () =>
      Buffer.concat([
        this.#request(REFUSED_CALL, frame(DATA, END_STREAM, this.#nextStreamId, Buffer.alloc(5))),
        this.#request(headers, frame(RST_STREAM, 0, this.#nextStreamId, Buffer.from([0, 0, 0, CANCEL]))),
      ]),
    );
    this.socket.write(Buffer.concat(pieces));
  }

  /** Resolves when the server has answered a PING and so has read everything sent before. */
  async pong(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const closed = () => reject(new Error("the server closed the connection"));
      this.socket.once("close", closed);
      this.#onFrame = (type) => {
        if (type !== PING) return;
        this.socket.off("close", closed);
        resolve();
      };
      this.socket.write(frame(PING, 0, 0, Buffer.alloc(8)));
    });
  }

  #request(headers: Record<string, string>, after: Buffer): Buffer {
    const streamId = this.#nextStreamId;
    this.#nextStreamId += 2;
    const fields = Object.entries({ ":method": "POST", ":scheme": "https", ":authority": "localhost", ...headers });
    const block = Buffer.concat(fields.map(([key, value]) => literal(key, value)));
    return Buffer.concat([frame(HEADERS, END_HEADERS, streamId, block), after]);
  }

  close(): void {
    this.socket.destroy();
  }

  #receive(bytes: Buffer): void {
    this.#received = Buffer.concat([this.#received, bytes]);
    for (;;) {
      if (this.#received.length < 9) return;
      const end = 9 + this.#received.readUIntBE(0, 3);
      if (this.#received.length < end) return;
      this.#onFrame?.(this.#received.readUInt8(3));
      this.#received = this.#received.subarray(end);
    }
  }
}

function frame(type: number, flags: number, streamId: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** Encodes a header field without indexing and Huffman coding (RFC 7541, 6.2.2); both texts must be below 127 bytes. */
function literal(name: string, value: string): Buffer {
  return Buffer.concat([
    Buffer.from([0, name.length]),
    Buffer.from(name),
    Buffer.from([value.length]),
    Buffer.from(value),
  ]);
}
