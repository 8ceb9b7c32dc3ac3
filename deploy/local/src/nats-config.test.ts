import { spawn } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { InvalidArgumentError } from "@diskmesh/domain";
import { connectNats } from "@diskmesh/mbus";
import { createDevelopmentCertificates, identifiedKey } from "@diskmesh/pki";
import { eventually, freePort, temporaryFolder } from "@diskmesh/testkit";
import * as x509 from "@peculiar/x509";
import { expect } from "chai";
import { HOSTS, MeshLayout } from "./layout.js";
import { writeNatsConfig } from "./nats-config.js";

const DIRECTOR = "spiffe://diskmesh/director";
const HOST_1 = "spiffe://diskmesh/disk-agent/host-1";
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** Certificates that the mesh's own authority could sign, and for whom the server takes their holder without a pin. */
const FORGED: readonly (readonly [what: string, commonName: string, names: x509.JsonGeneralNames, taken: boolean])[] = [
  ["two identities", "agent", [url(HOST_1), url(DIRECTOR)], true],
  ["two identities, the other way round", "agent", [url(DIRECTOR), url(HOST_1)], true],
  ["an identity of no user, and a director's", "agent", [url("spiffe://diskmesh/operator"), url(DIRECTOR)], true],
  ["an agent's URI, and a director's as a DNS name", "agent", [url(HOST_1), { type: "dns", value: DIRECTOR }], true],
  ["an agent's URI, and a director's as an e-mail address", "agent", [url(HOST_1), email(DIRECTOR)], true],
  ["an identity that is in order, with another key", "agent", [url(HOST_1)], true],
  ["a director's name as its subject alone", DIRECTOR, [{ type: "dns", value: "localhost" }], false],
];

describe("the configuration of nats-server", () => {
  let layout: MeshLayout;

  before(async () => {
    layout = new MeshLayout(temporaryFolder(), (await freePort()) - 50);
    await createDevelopmentCertificates(layout.certFolder, { hostIds: HOSTS.map(({ hostId }) => hostId) });
    for (const [index, [, commonName, names]] of FORGED.entries()) await forge(`forged-${index}`, commonName, names);
    mkdirSync(dirname(layout.configFile("any")), { recursive: true });
    await writeNatsConfig(layout);
  });

  it("lets in the certificates of the mesh, and no other of its authority, whatever that says", async () => {
    await using _server = await start();
    for (const name of ["director", "disk-agent-host-1", "disk-agent-host-3"])
      expect(await isLetIn(name), name).to.equal(true);
    for (const name of ["operator", "disk-registry"]) expect(await isLetIn(name), name).to.equal(false);
    for (const [index, [what]] of FORGED.entries()) expect(await isLetIn(`forged-${index}`), what).to.equal(false);
  });

  it("needs its pins for that: by itself the server takes the first name that it knows", async () => {
    const file = join(layout.natsFolder, "tls.conf");
    const pinned = readFileSync(file, "utf8");
    writeFileSync(file, pinned.replace(/pinned_certs: \[[^\]]*\]/, ""));
    await using _server = await start();
    writeFileSync(file, pinned);
    for (const [index, [what, , , taken]] of FORGED.entries())
      expect(await isLetIn(`forged-${index}`), what).to.equal(taken);
  });

  it("is not made for a certificate with two identities", () => {
    for (const [index, [what]] of FORGED.entries()) {
      if (what === "an identity that is in order, with another key") continue;
      const certificate = new X509Certificate(readFileSync(layout.tlsFiles(`forged-${index}`).certFile));
      expect(() => identifiedKey(certificate), what).to.throw(InvalidArgumentError, "must be its only URI");
    }
  });

  async function start(): Promise<AsyncDisposable> {
    const file = layout.configFile("nats-server", "conf");
    const child = spawn("nats-server", ["--config", file], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (chunk) => {
      said += chunk;
    });
    await eventually(() => expect(said).to.contain("Server is ready"));
    return {
      [Symbol.asyncDispose]: async () => {
        child.kill("SIGKILL");
        await once(child, "exit");
      },
    };
  }

  async function isLetIn(certificate: string): Promise<boolean> {
    const lines: string[] = [];
    const line = (_: object, message: string) => lines.push(message);
    const nats = await connectNats({
      servers: [layout.natsAddress],
      tls: layout.tlsFiles(certificate),
      name: certificate,
      reconnect: { stepMs: 60_000, maxMs: 60_000 },
      log: { debug: line, info: line, warn: line, error: line },
    });
    try {
      const isDecided = () => nats.isConnected || lines.includes("cannot connect to NATS");
      await eventually(isDecided);
      return nats.isConnected;
    } finally {
      await nats.close();
    }
  }

  async function forge(name: string, commonName: string, names: x509.JsonGeneralNames): Promise<void> {
    const read = (file: string) => readFileSync(join(layout.certFolder, file), "utf8");
    const issuer = new x509.X509Certificate(read("ca.pem"));
    const authorityKey = x509.PemConverter.decodeFirst(read("ca-key.pem"));
    const keys = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: "01",
      subject: [{ CN: [commonName] }],
      issuer: issuer.subjectName,
      notBefore: new Date(Date.now() - 60_000),
      notAfter: new Date(Date.now() + 3_600_000),
      publicKey: keys.publicKey,
      signingKey: await crypto.subtle.importKey("pkcs8", authorityKey, ALGORITHM, false, ["sign"]),
      signingAlgorithm: ALGORITHM,
      extensions: [
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
        new x509.SubjectAlternativeNameExtension(names),
      ],
    });
    const key = Buffer.from(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
    writeFileSync(join(layout.certFolder, `${name}.pem`), `${certificate.toString("pem")}\n`);
    writeFileSync(join(layout.certFolder, `${name}-key.pem`), `${x509.PemConverter.encode(key, "PRIVATE KEY")}\n`);
  }
});

function url(value: string): x509.JsonGeneralName {
  return { type: "url", value };
}

function email(value: string): x509.JsonGeneralName {
  return { type: "email", value };
}
