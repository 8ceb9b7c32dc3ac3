import { createServer, type Socket } from "node:net";
import { expect } from "chai";
import { BSON, type Document, Long, Timestamp } from "mongodb";
import { connectToMongo } from "./driver-server.js";

const HEADER_BYTES = 16;
const OP_MSG = 2_013;
/** Opcodes of a client's first request, sent before it knows the server's version, and of the reply. */
const [OP_QUERY, OP_REPLY] = [2_004, 1];
const DOCUMENTS = [{ _id: "a" }];

/** A server that records its requests. Each answer has a later operation time than the one before. */
class AskedServer implements AsyncDisposable {
  readonly asked: Document[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((socket) => this.#serve(socket));
  #timeS = 100;

  private constructor(private readonly hello: Document) {}

  static async start(hello: Document): Promise<AskedServer> {
    const server = new AskedServer(hello);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get url(): string {
    const { port } = this.#server.address() as { port: number };
    return `mongodb://127.0.0.1:${port}/test?directConnection=true`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {});
    let received = Buffer.alloc(0);
    socket.on("data", (data) => {
      received = Buffer.concat([received, data]);
      while (received.length >= HEADER_BYTES && received.length >= received.readInt32LE(0)) {
        const message = received.subarray(0, received.readInt32LE(0));
        received = received.subarray(message.length);
        socket.write(this.#answer(message));
      }
    });
  }

  #answer(message: Buffer): Buffer {
    const isFirst = message.readInt32LE(12) === OP_QUERY;
    // In OP_QUERY the header is followed by flags, the collection's name and two numbers; in OP_MSG by flags and the
    // kind of the only section.
    const bodyAt = isFirst ? message.indexOf(0, HEADER_BYTES + 4) + 9 : HEADER_BYTES + 5;
    const command = BSON.deserialize(message.subarray(bodyAt));
    if (!isFirst) this.asked.push(command);
    const time = new Timestamp({ t: ++this.#timeS, i: 1 });
    const clusterTime = { clusterTime: time, signature: { hash: Buffer.alloc(20), keyId: Long.fromNumber(0) } };
    const answer = { ...this.#said(command), ok: 1, operationTime: time, $clusterTime: clusterTime };
    const body = Buffer.from(BSON.serialize(answer));
    const head = Buffer.alloc(HEADER_BYTES + (isFirst ? 20 : 5));
    head.writeInt32LE(head.length + body.length, 0);
    head.writeInt32LE(message.readInt32LE(4), 8);
    head.writeInt32LE(isFirst ? OP_REPLY : OP_MSG, 12);
    if (isFirst) head.writeInt32LE(1, head.length - 4);
    return Buffer.concat([head, body]);
  }

  #said(command: Document): Document {
    const cursor = (firstBatch: readonly Document[]) => ({
      cursor: { id: Long.fromNumber(0), ns: "test.c", firstBatch },
    });
    if ("find" in command) return cursor(DOCUMENTS);
    if ("listCollections" in command) return cursor([]);
    if ("buildInfo" in command) return { version: "7.0.0" };
    return this.hello;
  }
}

const HELLO = {
  isWritablePrimary: true,
  ismaster: true,
  helloOk: true,
  setName: "rs0",
  hosts: ["127.0.0.1:1"],
  minWireVersion: 0,
  maxWireVersion: 21,
  maxBsonObjectSize: 16 * 1024 * 1024,
  maxMessageSizeBytes: 48_000_000,
  maxWriteBatchSize: 100_000,
};

async function reads(hello: Document): Promise<Document[]> {
  await using asked = await AskedServer.start(hello);
  const server = await connectToMongo(asked.url);
  try {
    await server.readInOrder(async (reader) => {
      for (const id of ["a", "b"]) await reader.get("c", id);
      expect(await reader.find("c", { limit: 5 })).to.deep.equal(DOCUMENTS);
    });
    await server.get("c", "outside");
  } finally {
    await server.close();
  }
  return asked.asked.filter((command) => "find" in command);
}

describe("reads in order, as requested from a MongoDB server,", () => {
  it("use one session, each after the time of the one before it", async () => {
    const [first, second, third, outside] = await reads({ ...HELLO, logicalSessionTimeoutMinutes: 30 });
    const sessionOf = (command: Document | undefined) => command?.lsid?.id?.toString("hex");
    expect(sessionOf(first)).to.be.a("string");
    for (const command of [second, third]) expect(sessionOf(command)).to.equal(sessionOf(first));
    const timeOf = (command: Document | undefined) =>
      (command?.readConcern?.afterClusterTime as Timestamp | undefined)?.t;
    expect(timeOf(first)).to.equal(undefined);
    expect(timeOf(second)).to.be.a("number");
    expect(timeOf(third)).to.be.above(timeOf(second) as number);
    expect(timeOf(outside)).to.equal(undefined);
    for (const { readConcern } of [first, second, third] as Document[]) expect(readConcern.level).to.equal("majority");
  });

  it("are sent one by one on a server without sessions", async () => {
    for (const command of await reads(HELLO)) expect(command).to.not.have.property("lsid");
  });
});
