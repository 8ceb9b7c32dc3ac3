import { createPrivateKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer } from "node:tls";
import { type HostId, InvalidArgumentError, InvalidStateError, identityUri, joinedHostUri } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { ALGORITHM, createAuthority, issueCertificate, type KeyPair, library, signCertificate } from "./authority.js";
import {
  createHostAuthority,
  type HostAuthority,
  hostRequest,
  openHostAuthority,
  parseHostRequest,
  signHostCertificate,
} from "./host-authority.js";

const HOST = "host-3" as HostId;
const newKey = (namedCurve = "P-256") =>
  String(generateKeyPairSync("ec", { namedCurve }).privateKey.export({ type: "pkcs8", format: "pem" }));

describe("the authority of joined hosts", () => {
  let folder: string;
  let mesh: KeyPair;
  let authority: HostAuthority;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "dm-host-ca-"));
    mesh = await createAuthority({ commonName: "mesh", validDays: 10, pathLength: 1 });
    authority = await opened(await createHostAuthority(mesh));
  });
  after(() => rmSync(folder, { recursive: true }));

  async function opened(pair: KeyPair): Promise<HostAuthority> {
    const files = { certFile: join(folder, "hosts.pem"), keyFile: join(folder, "hosts-key.pem") };
    writeFileSync(files.certFile, pair.certPem);
    writeFileSync(files.keyFile, pair.keyPem);
    return openHostAuthority(files);
  }

  /** Returns undefined when a server that trusts the mesh's authority accepts the client; else why it does not. */
  async function refusalOf(chainPem: string, keyPem: string): Promise<string | undefined> {
    const own = await issueCertificate(mesh, {
      identity: { role: "disk-registry", name: "" },
      commonName: "r",
      dnsNames: ["localhost"],
      ipAddresses: [],
      validDays: 1,
      usages: ["server"],
    });
    const tls = { cert: own.certPem, key: own.keyPem, ca: mesh.certPem };
    const server = createServer({ ...tls, requestCert: true, rejectUnauthorized: false });
    try {
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      return await new Promise((resolve, reject) => {
        server.once("secureConnection", (socket) => {
          socket.on("error", () => {});
          resolve(socket.authorized ? undefined : String(socket.authorizationError));
          socket.destroy();
        });
        const client = { port, host: "127.0.0.1", servername: "localhost", ca: mesh.certPem };
        connect({ ...client, cert: chainPem, key: keyPem })
          .on("error", reject)
          .on("secureConnect", () => {});
      });
    } finally {
      server.close();
    }
  }

  it("signs a request for the host's own name, and TLS accepts the certificate under the mesh's authority", async () => {
    const keyPem = newKey();
    const request = await parseHostRequest(await hostRequest(HOST, keyPem), HOST);
    const { chainPem, serialNumber } = await signHostCertificate(authority, request);
    const certificate = new X509Certificate(chainPem);
    expect(certificate.subjectAltName).to.equal("URI:spiffe://hosts.diskmesh/host-3");
    expect(certificate.serialNumber).to.equal(serialNumber);
    expect(certificate.checkPrivateKey(createPrivateKey(keyPem))).to.equal(true);
    expect(certificate.ca).to.equal(false);
    expect(Date.parse(certificate.validTo)).to.be.most(authority.endsAtMs);
    expect(await refusalOf(chainPem, keyPem)).to.equal(undefined);
  });

  it("can sign for nobody else: TLS refuses identities of the mesh, DNS names, addresses and authorities", async () => {
    const good = { uri: joinedHostUri(HOST), commonName: "host x", dnsNames: [], ipAddresses: [], validDays: 1 };
    const usages = ["client" as const];
    const forged: readonly object[] = [
      { uri: identityUri({ role: "operator", name: "" }) },
      { uri: identityUri({ role: "disk-agent", name: "host-4" }) },
      { dnsNames: ["localhost"] },
      { ipAddresses: ["10.0.0.5"] },
      { ipAddresses: ["::1"] },
      { commonName: "default.nats.bosh-internal" },
    ];
    for (const change of forged) {
      const keyPem = newKey();
      const key = (await parseHostRequest(await hostRequest(HOST, keyPem), HOST)).publicKey;
      const certPem = await signCertificate(authority, key, { ...good, usages, ...change });
      expect(await refusalOf(certPem + authority.certPem, keyPem), JSON.stringify(change)).to.be.a("string");
    }
    const below = await createAuthority({
      commonName: "below",
      validDays: 1,
      under: { authority, nameConstraints: Buffer.from("3000", "hex") },
    });
    const keyPem = newKey();
    const key = (await parseHostRequest(await hostRequest(HOST, keyPem), HOST)).publicKey;
    const certPem = await signCertificate(below, key, { ...good, usages });
    expect(await refusalOf(certPem + below.certPem + authority.certPem, keyPem)).to.be.a("string");
  });

  it("refuses requests for another name, with more than a name, with another kind of key, or unsigned", async () => {
    const refusal = async (pem: string) =>
      (await rejection(() => parseHostRequest(pem, HOST), InvalidArgumentError)).message;
    const x509 = await library();
    const make = async (
      name: string,
      extensions: InstanceType<typeof x509.Extension>[] = [],
      algorithm: object = ALGORITHM,
    ) => {
      const keys = await crypto.subtle.generateKey(algorithm as typeof ALGORITHM, true, ["sign", "verify"]);
      const request = { name, keys, extensions, signingAlgorithm: algorithm as typeof ALGORITHM };
      return (await x509.Pkcs10CertificateRequestGenerator.create(request)).toString("pem");
    };
    expect(await refusal(await hostRequest("host-4" as HostId, newKey()))).to.contain("CN=host-3");
    for (const name of ["", "CN=host-3, O=x", "CN=host-3+CN=host-4", "O=host-3"])
      expect(await refusal(await make(name)), name).to.contain("nothing else");
    const authorityWish = new x509.BasicConstraintsExtension(true, 0, true);
    expect(await refusal(await make("CN=host-3", [authorityWish]))).to.contain("more than the host's name");
    expect(await refusal(await make("CN=host-3", [], { ...ALGORITHM, namedCurve: "P-384" }))).to.contain("P-256");
    for (const text of [
      "",
      "x".repeat(5_000),
      "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----",
    ])
      expect(await refusal(text)).to.contain("refused");
    const der = Buffer.from((await hostRequest(HOST, newKey())).replace(/-----[^-]*-----|\s/g, ""), "base64");
    der[der.length - 1] = (der.at(-1) ?? 0) ^ 1;
    const pem = `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString("base64")}\n-----END CERTIFICATE REQUEST-----`;
    expect(await refusal(pem)).to.contain("signature");
  });

  it("is refused when the mesh's authority may sign none, or its files are another authority's", async () => {
    const old = await createAuthority({ commonName: "old", validDays: 1 });
    expect((await rejection(() => createHostAuthority(old), InvalidStateError)).message).to.contain(
      "replace-authority",
    );
    for (const pair of [
      mesh,
      { ...(await createHostAuthority(mesh)), keyPem: mesh.keyPem },
      { certPem: "", keyPem: "" },
    ])
      expect((await rejection(() => opened(pair), InvalidArgumentError)).message).to.contain("pki host-authority");
  });
});
