import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { TLSSocket, connect as tlsConnect } from "node:tls";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { connectNats, type NatsConnection } from "./connection.js";
import { whyRefused } from "./server-version.js";
import { TestServer } from "./testing/test-server.js";

const REFUSED = ["2.1.9", "2.9.10", "2.10.3", "2.11.0", "2.11.15-RC.1", "2.12.0-preview.1", "2.12.5"];
/** Accepted versions; a server that reports no version is accepted. */
const TAKEN = ["2.10.4", "2.10.29", "2.11.15", "2.12.6", "2.14.0", "v3.0.0", "", "main", "2.9"];

describe("versions of nats-server", () => {
  for (const version of REFUSED)
    it(`refuses ${version}`, () => {
      expect(whyRefused(version)).to.contain(`nats-server ${version}`).and.contain("run 2.10.4, 2.11.15, 2.12.6");
    });
  for (const version of TAKEN)
    it(`accepts ${version || "none"}`, () => {
      expect(whyRefused(version)).to.equal(undefined);
    });

  describe("a connection", () => {
    let server: TestServer;
    let proxy: Server;
    let port: number;
    let toldVersion = "";
    const links: NatsConnection[] = [];
    const sockets = new Set<Socket>();

    // A proxy in front of a real server replaces the version in the INFO message, before TLS and, since 2.12, inside
    // TLS.
    before(async () => {
      server = await TestServer.start(["host-1"]);
      proxy = createServer((near) => void stand(near));
      await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
      port = (proxy.address() as { port: number }).port;
    });

    async function stand(near: Socket): Promise<void> {
      const far = createConnection(server.nats.port, "127.0.0.1");
      for (const socket of [near, far]) sockets.add(socket.on("error", () => {}));
      const [info] = await once(far, "data");
      near.write(retold(info));
      const [ours, theirs] = ["nats", "director"].map((name) => {
        const { caFile, certFile, keyFile } = server.certs.files(name);
        return { ca: readFileSync(caFile), cert: readFileSync(certFile), key: readFileSync(keyFile) };
      });
      const nearTls = new TLSSocket(near, { isServer: true, ...ours }).on("error", () => {});
      const farTls = tlsConnect({ socket: far, ...theirs, checkServerIdentity: () => undefined }).on("error", () => {});
      nearTls.pipe(farTls);
      farTls.on("data", (data) => nearTls.write(retold(data)));
      farTls.on("close", () => near.destroy());
      nearTls.on("close", () => far.destroy());
    }
    const retold = (data: Buffer) => String(data).replace(/"version":"[^"]*"/, `"version":"${toldVersion}"`);
    after(async () => {
      for (const link of links) await link.close();
      for (const socket of sockets) socket.destroy();
      proxy?.close();
      await server?.stop();
    });

    async function connect(version: string) {
      toldVersion = version;
      const lines: string[] = [];
      const line = (fields: object, message: string) => lines.push(`${message} ${JSON.stringify(fields)}`);
      const link = await connectNats({
        servers: [`localhost:${port}`],
        tls: server.certs.files("director"),
        name: "director",
        reconnect: { minDelayMs: 20, maxDelayMs: 100 },
        log: { debug: line, info: line, warn: line, error: line },
      });
      links.push(link);
      return { link, said: () => lines.join("\n") };
    }

    it("is closed to a server that is too old, and the log names the reason", async () => {
      const { link, said } = await connect("2.11.10");
      await eventually(() =>
        expect(said()).to.match(/NATS connection failed .*nats-server 2\.11\.10 cannot restrict agents/),
      );
      expect(link.isConnected).to.equal(false);
      expect(said()).not.to.contain("NATS connection opened {");
      await link.close();
    });

    it("is kept to a server that is new enough", async () => {
      const { link } = await connect("2.10.4");
      await eventually(() => expect(link.isConnected).to.equal(true));
    });
  });
});
