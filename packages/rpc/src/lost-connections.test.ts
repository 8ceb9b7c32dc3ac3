import { connect as connectTcp, createServer, type Socket } from "node:net";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { Bench, deferred, eventually, type Note } from "./testing/note-bench.js";

const NOTE = { text: "a", count: 7 };
const QUICK = { text: "quick", count: 1 };

describe("a connection with a call under way", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  /** Makes handlers that answer "quick" at once and other notes when released. */
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

  it("that is cut makes the outcome of the call unknown, and nothing is done twice", async () => {
    const { get, begun, release } = slowly();
    await bench.serve({ get });
    const wire = await Wire.to(bench.port);
    const client = bench.client({ address: `127.0.0.1:${wire.port}` });
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

  it("to a server that stops lets the call end and begins no other", async () => {
    const { get, begun, release } = slowly();
    const server = await bench.serve({ get });
    const client = bench.client();
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

/** A proxied connection that a test can cut without notice, as when a machine crashes. */
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

  async cut(): Promise<void> {
    const closed = new Promise((resolve) => this.#listener.close(resolve));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }
}
