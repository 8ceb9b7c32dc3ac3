import { X509Certificate } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { InvalidArgumentError, silentLogger, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { connectNats } from "./connection.js";
import { TestServer } from "./testing/test-server.js";

const until = (condition: () => boolean): Promise<boolean> => eventually(condition);

describe("a connection to NATS", () => {
  let server: TestServer;

  before(async () => {
    server = await TestServer.start([]);
  });
  after(() => server.stop());

  it("is refused to a server with the certificate of another process", async () => {
    const warnings: object[] = [];
    const log = { ...silentLogger, warn: (fields: object) => warnings.push(fields) };
    const impostor = await TestServer.start([], "director");
    const connection = await connectNats({
      servers: [impostor.nats.address],
      tls: impostor.certs.files("director"),
      name: "test",
      log,
    });
    await until(() => warnings.length > 0);
    expect(connection.isConnected).to.equal(false);
    const words = "not for a NATS server: its common name must end in .nats.bosh-internal";
    expect(JSON.stringify(warnings[0])).to.include(words);
    await connection.close();
    await impostor.stop();
  });

  it("is refused when the server has no user for this process; the error says what to do on the server", async () => {
    const certFile = server.certs.files("operator").certFile;
    const connection = await connectNats({
      servers: [server.nats.address],
      tls: server.certs.files("operator"),
      name: "a stranger",
    });
    try {
      const told: (string | undefined)[] = [];
      const forget = connection.onChange((why) => told.push(why));
      expect(told).to.deep.equal(["it is not connected yet"]);
      await until(() => told.length > 1);
      forget();
      expect(told[1]).to.contain(`the server has no user for a stranger's certificate "${certFile}"`);
      expect(told[1]).to.contain("URI:spiffe://diskmesh/<role>, and reload the server ('Authorization Violation')");
    } finally {
      await connection.close();
    }
  });

  it("is refused to a revoked server and closed when its server is revoked; changed files count for the next connection", async () => {
    const folder = temporaryFolder();
    const revokedFile = join(folder, "revoked");
    const trust = (caFile: string) => copyFileSync(caFile, join(folder, "ca.pem"));
    const { caFile, certFile: serverCertFile } = server.certs.files("nats");
    writeFileSync(revokedFile, "");
    trust(serverCertFile);
    const connection = await connectNats({
      servers: [server.nats.address],
      tls: { ...server.certs.files("director"), caFile: join(folder, "ca.pem"), revokedFile },
      name: "director",
      reconnect: { minDelayMs: 20, maxDelayMs: 100 },
    });
    try {
      let why: string | undefined = "";
      connection.onChange((told) => {
        why = told;
      });
      await until(() => why?.includes("this process does not trust the authority (CA)") === true);
      trust(caFile);
      await until(() => connection.isConnected);
      const { serialNumber } = new X509Certificate(readFileSync(serverCertFile));
      writeFileSync(revokedFile, serialNumber);
      await until(() => why?.includes(`serial number ${serialNumber} is revoked`) === true);
      expect(connection.isConnected).to.equal(false);
      writeFileSync(revokedFile, "");
      await until(() => connection.isConnected);
    } finally {
      await connection.close();
    }
  });

  it("closes when its own certificate is revoked, and reconnects with the next certificate", async () => {
    const folder = temporaryFolder();
    const path = (name: string) => join(folder, name);
    const { caFile, certFile, keyFile } = server.certs.files("director");
    copyFileSync(keyFile, path("key.pem"));
    copyFileSync(certFile, path("cert.pem"));
    const { serialNumber } = new X509Certificate(readFileSync(certFile));
    writeFileSync(path("revoked"), "");
    const tls = { caFile, certFile: path("cert.pem"), keyFile: path("key.pem"), revokedFile: path("revoked") };
    const connection = await connectNats({
      servers: [server.nats.address],
      tls,
      tlsSection: "nats.tls",
      name: "director",
      reconnect: { minDelayMs: 20, maxDelayMs: 100 },
    });
    try {
      let losses = 0;
      connection.onDisconnected(() => losses++);
      await until(() => connection.isConnected);
      writeFileSync(path("revoked"), serialNumber);
      // The client only drops the connection. The server, which does not read the revocation file, may accept it again.
      await until(() => losses === 1);
      await until(() => connection.isConnected);
    } finally {
      await connection.close();
    }
  });

  it("reports the config section that names unusable TLS files", async () => {
    const files = server.certs.files("director");
    const tls = { ...files, keyFile: server.certs.files("operator").keyFile };
    const connecting = connectNats({ servers: ["127.0.0.1:1"], tls, tlsSection: "nats.tls", name: "t" });
    await rejection(
      connecting,
      InvalidArgumentError,
      /^nats\.tls\.keyFile .* is not the key of .* in nats\.tls\.certFile/,
    );
  });

  it("is refused without a server, to a malformed address, or without TLS files", async () => {
    const tls = server.certs.files("director");
    const connecting = (options: object) =>
      rejection(connectNats({ servers: ["127.0.0.1:1"], tls, name: "t", ...options }));
    for (const servers of [[], [""], ["http://x:1"], ["tls://user:secret@x:1"], ["x:99999"]])
      expect(await connecting({ servers }), JSON.stringify(servers)).to.be.instanceOf(InvalidArgumentError);
    const missing = await connecting({ tls: { ...tls, keyFile: "/nowhere/key.pem" } });
    expect(missing).to.be.instanceOf(InvalidArgumentError);
    expect(missing.message).to.include("/nowhere/key.pem");
  });

  it("can be closed while connecting", async () => {
    const tls = server.certs.files("director");
    const connection = await connectNats({ servers: ["127.0.0.1:1"], tls, name: "t" });
    await connection.close();
    expect(() => connection.publish("x", Buffer.from(""))).to.throw(UnavailableError);
  });
});
