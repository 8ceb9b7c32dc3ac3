import { readFileSync } from "node:fs";
import { connect as connectTcp, createServer, type Socket } from "node:net";
import { promisify } from "node:util";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { Server, ServerCredentials, status } from "@grpc/grpc-js";
import { expect } from "chai";
import { CARRY } from "./carrier-method.js";
import type { ClientOptions } from "./client.js";
import { methodsOf } from "./definition.js";
import { Bench, deferred, eventually, type Note, NoteService } from "./testing/note-bench.js";

const NOTE = { text: "a", count: 7 };
const QUICK = { text: "quick", count: 1 };

/** The stream that carries calls: when it is left, and what its loss means for them. */
describe("the stream that carries calls", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  const carried = (options: Partial<ClientOptions> = {}) => bench.client({ carried: true, ...options });

  /** Answers quick notes at once, others when it is told. */
  function slowly() {
    const released = deferred();
    const begun: Note[] = [];
    const get = async (note: Note) => {
      begun.push(note);
      if (note.text !== QUICK.text) await released.promise;
      return note;
    };
    return { get, begun, release: released.resolve };
  }

  /** A server that is none of ours, e.g. of a former release. */
  async function plainServer(implementation: object, definitions: object): Promise<Server> {
    const { caFile, certFile, keyFile } = bench.files("disk-registry");
    const [ca, cert_chain, private_key] = [caFile, certFile, keyFile].map((file) => readFileSync(file));
    if (!ca || !cert_chain || !private_key) throw new Error("no certificates");
    const server = new Server();
    server.addService(definitions as never, implementation as never);
    const credentials = ServerCredentials.createSsl(ca, [{ cert_chain, private_key }], true);
    bench.port = await promisify(server.bindAsync.bind(server))("127.0.0.1:0", credentials);
    return server;
  }

  it("is asked for again of a server that carries nothing, but not soon", async () => {
    const [[, method] = []] = methodsOf(NoteService);
    const get = ({ request }: { request: Note }, callback: (error: null, note: Note) => void) =>
      callback(null, request);
    const former = await plainServer({ get }, { get: method });
    const [client, impatient] = [carried(), carried({ carrierAgeMs: 50 })];
    for (const one of [client, impatient]) expect(await one.get(NOTE)).to.deep.equal(NOTE);
    former.forceShutdown();
    await bench.serve({}, { port: bench.port, limits: { maxStreamsPerPeer: 1 } });
    const openAndEnd = bench.streamOpener();
    await eventually(async () => expect(await client.get(NOTE)).to.deep.equal(NOTE));
    await openAndEnd();
    await eventually(async () => {
      await impatient.get(NOTE);
      await rejection(openAndEnd(), Error, "rpc.maxStreamsPerPeer");
    });
  });

  it("says nothing of its calls when the server takes a message of it for none: they may have been done", async () => {
    const carry = (stream: NodeJS.EventEmitter) =>
      stream.once("data", () => stream.emit("error", { code: status.INVALID_ARGUMENT, details: "not so" }));
    const server = await plainServer({ carry }, { carry: CARRY });
    const failure = await rejection(carried().get(NOTE), UnavailableError, "has ended");
    expect(failure.outcome).to.equal("unknown");
    server.forceShutdown();
  });

  for (const isCarried of [true, false])
    it(`is cut: nobody knows what was done${isCarried ? "" : ", as of a call by itself"}`, async () => {
      const { get, begun, release } = slowly();
      await bench.serve({ get });
      const wire = await Wire.to(bench.port);
      const client = carried({ carried: isCarried, address: `127.0.0.1:${wire.port}` });
      await client.get(QUICK);
      const slow = rejection(client.get(NOTE), UnavailableError);
      await eventually(async () => expect(begun).to.have.length(2));
      await wire.cut();
      expect((await slow).outcome).to.equal("unknown");
      const away = await rejection(client.get(QUICK), UnavailableError);
      expect(away.outcome).to.equal("not_done");
      expect(begun).to.have.length(2);
      release();
    });

  for (const isCarried of [true, false])
    it(`to a server that stops: its calls end, and no other begins${isCarried ? "" : ", as by itself"}`, async () => {
      const { get, begun, release } = slowly();
      const server = await bench.serve({ get });
      const client = carried({ carried: isCarried });
      await client.get(QUICK);
      const slow = client.get(NOTE);
      await eventually(async () => expect(begun).to.have.length(2));
      const drained = server.drain();
      const refused = await rejection(client.get(QUICK, { deadlineMs: 10_000 }), UnavailableError);
      expect(refused.outcome).to.equal("not_done");
      expect(begun).to.have.length(2);
      release();
      expect(await slow).to.deep.equal(NOTE);
      await drained;
    });
});

/** A connection that a test can cut without a word, as the end of a machine does. */
class Wire {
  readonly #sockets = new Set<Socket>();
  readonly #listener;
  port = 0;

  static async to(port: number): Promise<Wire> {
    const wire = new Wire(port);
    await new Promise<void>((resolve) => wire.#listener.listen(0, "127.0.0.1", resolve));
    wire.port = (wire.#listener.address() as { readonly port: number }).port;
    return wire;
  }

  private constructor(port: number) {
    this.#listener = createServer((near) => {
      const far = connectTcp(port, "127.0.0.1");
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.on("error", () => {});
      }
      near.pipe(far).pipe(near);
    });
  }

  /** For good. */
  async cut(): Promise<void> {
    const closed = new Promise((resolve) => this.#listener.close(resolve));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }
}
