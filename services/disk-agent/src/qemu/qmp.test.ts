import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { Qmp } from "./qmp.js";

const GREETING = '{"QMP": {"version": {}, "capabilities": []}}\n';

describe("a control connection to a storage daemon", () => {
  let server: Server;
  let path: string;
  let peer: Socket;

  beforeEach(async () => {
    path = join(temporaryFolder(), "qmp");
    server = createServer((socket) => {
      peer = socket;
      socket.write(GREETING);
      socket.once("data", () => socket.write('{"event": "X"}\nno JSON\n{"return": {}, "id": 1}\n'));
    }).listen(path);
    await once(server, "listening");
  });
  afterEach(() => server.close());

  it("answers a command by its id, and refuses with the daemon's reason", async () => {
    const qmp = await Qmp.connect(path);
    peer.once("data", () => peer.write('{"return": 7, "id": 2}\n'));
    expect(await qmp.execute("query")).to.equal(7);
    peer.once("data", () => peer.write('{"error": {"class": "GenericError", "desc": "no such node"}, "id": 3}\n'));
    expect((await rejection(qmp.execute("query"), UnavailableError)).message).to.match(/no such node/);
    qmp.close();
  });

  it("fails its commands when the daemon is killed with a command unread", async () => {
    const qmp = await Qmp.connect(path);
    peer.pause();
    const failed = rejection(qmp.execute("query", { padding: "x".repeat(200_000) }), UnavailableError);
    await new Promise((resolve) => setTimeout(resolve, 50));
    // The kernel resets a connection that is closed with unread bytes.
    peer.destroy();
    expect((await failed).message).to.match(/has ended/);
    await qmp.ended;
  });

  it("is refused where no daemon listens", async () => {
    await rejection(Qmp.connect(`${path}-none`), UnavailableError);
  });
});
