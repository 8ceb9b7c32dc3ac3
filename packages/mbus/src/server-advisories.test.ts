import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { TLSSocket, connect as tlsConnect } from "node:tls";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { connectNats, type NatsConnection } from "./connection.js";
import { holesOf, whyOutdated, whyRefused } from "./server-advisories.js";
import { TestServer } from "./testing/test-server.js";

const CASES: readonly (readonly [version: string, open: readonly string[], closed: "none" | readonly string[]])[] = [
  ["2.1.9", ["CVE-2022-24450"], ["CVE-2020-28466", "CVE-2026-33217"]],
  ["2.7.1", ["CVE-2022-24450"], ["CVE-2022-26652"]],
  ["2.7.2", [], ["CVE-2022-26652"]],
  ["2.9.10", [], ["CVE-2023-47090", "CVE-2025-30215", "CVE-2026-33248", "GHSA-q59r-vq66-pxc2"]],
  ["2.10.0", [], ["CVE-2023-46129", "CVE-2023-47090"]],
  ["2.10.29", [], ["CVE-2026-29785"]],
  ["2.11.0", ["CVE-2026-33249"], ["CVE-2025-30215"]],
  ["2.11.14", ["CVE-2026-33249"], ["CVE-2026-33248"]],
  ["2.11.15-RC.1", ["CVE-2026-33249"], ["CVE-2026-33248"]],
  ["2.11.15", [], ["GHSA-38x3-76xf-cq45"]],
  ["2.11.17", [], ["GHSA-q59r-vq66-pxc2"]],
  ["2.12.0-preview.1", ["CVE-2026-33249"], ["CVE-2026-33248"]],
  ["2.12.5", ["CVE-2026-33249"], ["CVE-2026-33248"]],
  ["2.12.6", [], ["GHSA-38x3-76xf-cq45"]],
  ["2.12.15", [], "none"],
  ["2.14.2", [], ["GHSA-q59r-vq66-pxc2"]],
  ["2.14.3", [], "none"],
  ["v3.0.0", [], "none"],
];

describe("holes of nats-server", () => {
  for (const [version, open, closed] of CASES)
    it(`${version} -> ${open.length > 0 ? "refused" : closed === "none" ? "taken" : "warned of"}`, () => {
      expect(holesOf(version)?.open).to.deep.equal(open);
      if (closed === "none") expect(holesOf(version)?.closed).to.deep.equal([]);
      else expect(holesOf(version)?.closed).to.include.members([...closed]);
      expect(whyRefused(version) !== undefined).to.equal(open.length > 0);
      expect(whyRefused(version, open)).to.equal(undefined);
      expect(whyOutdated(version) === undefined).to.equal(closed === "none");
    });

  it("of no version -> warned of, since nothing can be told", () => {
    for (const text of ["", "main", "2.9", "2.9.10.1", "nats-server"]) {
      expect(holesOf(text)).to.equal(undefined);
      expect(whyRefused(text)).to.equal(undefined);
      expect(whyOutdated(text)).to.contain("cannot be told");
    }
  });

  describe("a connection", () => {
    let server: TestServer;
    let proxy: Server;
    let port: number;
    let toldVersion = "";
    const links: NatsConnection[] = [];
    const sockets = new Set<Socket>();

    // A real server behind somebody who changes the version that it tells, before TLS and, as of 2.12, within.
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

    async function connect(version: string, acceptedAdvisories: readonly string[] = []) {
      toldVersion = version;
      const lines: string[] = [];
      const line = (fields: object, message: string) => lines.push(`${message} ${JSON.stringify(fields)}`);
      const link = await connectNats({
        servers: [`localhost:${port}`],
        tls: server.certs.files("director"),
        name: "director",
        reconnect: { stepMs: 20, maxMs: 100 },
        log: { debug: line, info: line, warn: line, error: line },
        acceptedAdvisories,
      });
      links.push(link);
      return { link, said: () => lines.join("\n") };
    }

    it("is not kept to a server with a hole that is open, and the log says which", async () => {
      const { link, said } = await connect("2.11.10");
      await eventually(() => expect(said()).to.match(/cannot connect to NATS .*2\.11\.10.*CVE-2026-33249/));
      expect(link.isConnected).to.equal(false);
      expect(said()).not.to.contain("connected to NATS {");
      await link.close();
    });

    it("is kept to one whose packager dealt with the hole", async () => {
      const { link } = await connect("2.11.10", ["CVE-2026-33249"]);
      await eventually(() => expect(link.isConnected).to.equal(true));
    });

    it("to an old one is kept, and warned of", async () => {
      const { link, said } = await connect("2.9.10");
      await eventually(() => expect(link.isConnected).to.equal(true));
      expect(said()).to.match(/nats-server 2\.9\.10 has \d+ known holes that this configuration does not open/);
    });

    it("to one without known holes is kept in silence", async () => {
      const { link, said } = await connect("2.14.9");
      await eventually(() => expect(link.isConnected).to.equal(true));
      expect(said()).not.to.contain("known holes");
    });
  });
});
