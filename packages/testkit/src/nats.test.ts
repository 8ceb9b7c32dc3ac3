import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { TlsFiles } from "@diskmesh/rpc";
import { expect } from "chai";
import { type TestCertificates, testCertificates } from "./certificates.js";
import { eventually } from "./eventually.js";
import { temporaryFolder } from "./folders.js";
import { type NatsServer, startNats } from "./nats.js";

/** The text protocol of NATS by hand, so that what is seen is the server's doing and no client library's. */
class RawNats {
  received = "";
  closed = false;

  private constructor(private readonly socket: Socket) {
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      this.received += text;
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      this.closed = true;
    });
  }

  /** Connects as NATS wants it: the server greets in plain text, then both turn to TLS. */
  static async open(port: number, files: TlsFiles): Promise<RawNats> {
    const plain = connect(port, "127.0.0.1");
    await new Promise((resolve, reject) => plain.once("data", resolve).once("error", reject));
    const socket = connectTls({
      socket: plain,
      ca: readFileSync(files.caFile),
      cert: readFileSync(files.certFile),
      key: readFileSync(files.keyFile),
      servername: "localhost",
    });
    const client = new RawNats(socket);
    client.send('CONNECT {"verbose":false,"pedantic":false,"tls_required":true}\r\nPING\r\n');
    return client;
  }

  send(text: string): void {
    this.socket.write(text);
  }

  close(): void {
    this.socket.destroy();
  }

  receives(text: string): Promise<unknown> {
    return eventually(() => expect(this.received).to.contain(text));
  }
}

describe("startNats", () => {
  let certs: TestCertificates;
  let nats: NatsServer;
  const clients: RawNats[] = [];
  const open = async (name: string): Promise<RawNats> => {
    const client = await RawNats.open(nats.port, certs.files(name));
    clients.push(client);
    return client;
  };

  before(async () => {
    certs = await testCertificates({ hostIds: ["host-1", "host-2"] });
    nats = await startNats({
      folder: temporaryFolder(),
      certs,
      users: [
        { user: "spiffe://diskmesh/director", publish: ["agent.>"], subscribe: ["director.>"] },
        { user: "spiffe://diskmesh/disk-agent/host-1", publish: ["director.>"], subscribe: ["agent.host-1"] },
      ],
    });
  });
  afterEach(() => {
    for (const client of clients.splice(0)) client.close();
  });
  after(() => nats.stop());

  it("lets in certificates whose URI is a user's, and no others", async () => {
    for (const name of ["director", "disk-agent-host-1"]) await (await open(name)).receives("PONG");
    for (const name of ["operator", "disk-agent-host-2", "nats"]) {
      const client = await open(name);
      await eventually(() => client.closed);
      expect(client.received, name).to.contain("Authorization Violation");
    }
  });

  it("maps each certificate to its own permissions", async () => {
    const agent = await open("disk-agent-host-1");
    const director = await open("director");
    agent.send("SUB agent.host-1 1\r\nPING\r\n");
    await agent.receives("PONG\r\nPONG");
    director.send("PUB agent.host-1 5\r\nhello\r\n");
    await agent.receives("MSG agent.host-1 1 5\r\nhello");
    agent.send("SUB agent.host-2 2\r\n");
    await agent.receives('Permissions Violation for Subscription to "agent.host-2"');
    agent.send("PUB agent.host-1 1\r\nx\r\n");
    await agent.receives('Permissions Violation for Publish to "agent.host-1"');
  });

  it("restarts on the same port", async () => {
    const client = await open("director");
    await client.receives("PONG");
    await nats.restart();
    await eventually(() => client.closed);
    await (await open("director")).receives("PONG");
  });
});
