import { connect, createServer, type Server, type Socket } from "node:net";
import { BSON } from "mongodb";

const HEADER_SIZE_BYTES = 16;
const OP_MSG = 2013;
/** Offset of the command: behind the header, the flags, and the kind of the first section. */
const COMMAND_AT = HEADER_SIZE_BYTES + 4 + 1;

/** Returns the proxy's answer to a command; undefined forwards the command. */
type Answer = (command: BSON.Document) => BSON.Document | undefined;

/** A proxy in front of a MongoDB-compatible server that answers some commands itself. */
export class CommandProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(targetUrl: string, answer: Answer) {
    const { hostname, port } = new URL(targetUrl);
    this.#server = createServer((client) => {
      const target = connect(Number(port), hostname);
      for (const socket of [client, target]) {
        this.#sockets.add(socket.on("error", () => {}));
        socket.once("close", () => (socket === client ? target : client).destroy());
      }
      target.pipe(client);
      let unread: Buffer = Buffer.alloc(0);
      client.on("data", (chunk: Buffer) => {
        unread = Buffer.concat([unread, chunk]);
        while (unread.length >= 4 && unread.length >= unread.readInt32LE(0)) {
          const message = unread.subarray(0, unread.readInt32LE(0));
          unread = unread.subarray(message.length);
          const answered = message.readInt32LE(12) === OP_MSG ? answer(commandOf(message)) : undefined;
          if (answered === undefined) target.write(message);
          else client.write(replyTo(message, answered));
        }
      });
    });
  }

  static async start(targetUrl: string, answer: Answer): Promise<CommandProxy> {
    const proxy = new CommandProxy(targetUrl, answer);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  /**
   * URL without a database name. With directConnection, the driver does not bypass the proxy to a replica set behind
   * it.
   */
  get url(): string {
    return `mongodb://127.0.0.1:${(this.#server.address() as { port: number }).port}/?directConnection=true`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}

function commandOf(message: Buffer): BSON.Document {
  return BSON.deserialize(message.subarray(COMMAND_AT, COMMAND_AT + message.readInt32LE(COMMAND_AT)));
}

function replyTo(message: Buffer, answer: BSON.Document): Buffer {
  const head = Buffer.alloc(COMMAND_AT);
  const body = BSON.serialize(answer);
  head.writeInt32LE(head.length + body.length, 0);
  head.writeInt32LE(message.readInt32LE(4), 8);
  head.writeInt32LE(OP_MSG, 12);
  return Buffer.concat([head, body]);
}
