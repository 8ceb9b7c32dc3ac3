import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConnectionOptions, connect, createServer as createTlsServer } from "node:tls";
import { InvalidArgumentError, type Role, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import type { TlsFiles } from "@diskmesh/tls";
import { expect } from "chai";
import { DEFAULT_RPC_SERVER_LIMITS } from "./call/limits.js";
import { createClient } from "./client/following.js";
import type { RefusedConnection } from "./server/secure-listener.js";
import { RpcServer } from "./server/server.js";
import { NoteService } from "./testing/note-bench.js";

const ENDED_DAYS = -0.01;

describe("a connection that cannot be established reports", () => {
  const folder = mkdtempSync(join(tmpdir(), "dm-broken-"));
  const closers: (() => unknown)[] = [];
  const refused: RefusedConnection[] = [];
  let ca: KeyPair;
  let otherCa: KeyPair;

  before(async () => {
    ca = await createAuthority({ commonName: "ours", validDays: 1 });
    otherCa = await createAuthority({ commonName: "another", validDays: 1 });
  });
  afterEach(async () => {
    refused.length = 0;
    for (const close of closers.splice(0)) await close();
  });
  after(() => rmSync(folder, { recursive: true }));

  let written = 0;
  async function certificate(role: Role, { by = ca, trusts = ca, validDays = 1 } = {}): Promise<TlsFiles> {
    const pair = await issueCertificate(by, {
      identity: { role, name: "" },
      commonName: role,
      dnsNames: [],
      ipAddresses: [],
      validDays,
      usages: ["server", "client"],
    });
    const file = (name: string, text: string): string => {
      const path = join(folder, `${written}-${name}.pem`);
      writeFileSync(path, text);
      return path;
    };
    written += 1;
    return {
      caFile: file("ca", trusts.certPem),
      certFile: file("cert", pair.certPem),
      keyFile: file("key", pair.keyPem),
    };
  }

  async function call(address: string, tls: TlsFiles): Promise<string> {
    const client = createClient(NoteService, { address, tls, serverRole: "disk-registry", defaultDeadlineMs: 20_000 });
    closers.push(() => client.close());
    const { message } = await rejection(client.get({ text: "?" }), UnavailableError);
    expect(message).to.match(new RegExp(`^/test\\.v1\\.NoteService/Get at ${address}: `));
    expect(message).not.to.match(/Resolution note|SSL routines|No connection established|\\.c:/);
    return message;
  }

  async function serve(tls: TlsFiles): Promise<string> {
    const limits = { ...DEFAULT_RPC_SERVER_LIMITS, drainTimeoutMs: 100 };
    const server = new RpcServer({ tls, limits, onRefused: (one) => refused.push(one) });
    closers.push(() => server.drain());
    return `127.0.0.1:${await server.listen({ host: "127.0.0.1", port: 0 })}`;
  }

  async function listening(server: Server): Promise<string> {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => server.close());
    return `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  it("an address on which no process listens", async () => {
    // Port 1 rather than a recently freed port, which another process may have taken.
    const told = await call("127.0.0.1:1", await certificate("operator"));
    expect(told).to.contain(": no process listens there: check the address");
  });

  it("a server that does not speak TLS", async () => {
    const address = await listening(createHttpServer());
    expect(await call(address, await certificate("operator"))).to.contain("the other side does not speak TLS");
  });

  it("a server's certificate that expired while the server ran", async () => {
    const { certFile, keyFile } = await certificate("disk-registry", { validDays: ENDED_DAYS });
    const files = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
    const address = await listening(createTlsServer({ ...files, ALPNProtocols: ["h2"] }));
    const told = await call(address, await certificate("operator"));
    expect(told).to.contain(
      ": the other side's certificate has ended by the clock of this machine: set this clock if it is wrong, or renew the certificate there (Error: certificate has expired)",
    );
  });

  it("a server whose certificate is of another authority", async () => {
    const address = await serve(await certificate("disk-registry", { by: otherCa }));
    const told = await call(address, await certificate("operator"));
    expect(told).to.contain(
      "this process does not trust the authority (CA) of the other side's certificate: check the CA file here",
    );
  });

  for (const [what, options, words] of [
    [
      "has ended",
      { validDays: ENDED_DAYS },
      "the other side's certificate has ended by the clock of this machine: set this clock if it is wrong, or renew the certificate there (CERT_HAS_EXPIRED)",
    ],
    ["is of another authority", { by: () => otherCa }, "this process does not trust the authority (CA)"],
  ] as const)
    it(`a client's certificate that ${what}`, async () => {
      const address = await serve(await certificate("disk-registry"));
      const by = "by" in options ? options.by() : ca;
      const validDays = "validDays" in options ? options.validDays : 1;
      const told = await call(address, await certificate("operator", { by, validDays }));
      expect(told).to.contain("it may be stopping, lack descriptors, or refuse this process's certificate");
      expect(refused[0]).to.deep.include({ remoteAddress: "127.0.0.1", claimed: { role: "operator", name: "" } });
      expect(refused[0]?.reason).to.contain("the certificate of operator is refused: ").and.to.contain(words);
    });

  it("a refused client again when it resumes its TLS session, and sends it nothing", async () => {
    const [host, port] = (await serve(await certificate("disk-registry"))).split(":");
    const files = await certificate("operator", { by: otherCa });
    const [cert, key, ca] = [files.certFile, files.keyFile, files.caFile].map((file) => readFileSync(file));
    const attempt = (session?: Buffer): Promise<{ session: Buffer | undefined; bytes: number }> =>
      new Promise((resolve) => {
        const given = { cert, key, ca, ALPNProtocols: ["h2"], checkServerIdentity: () => undefined };
        const socket = connect({
          host,
          port: Number(port),
          ...given,
          ...(session ? { session } : {}),
        } as ConnectionOptions);
        let [kept, bytes]: [Buffer | undefined, number] = [undefined, 0];
        socket.on("session", (one) => {
          kept = one;
        });
        socket.on("data", (data) => {
          bytes += data.length;
        });
        socket.on("error", () => {});
        socket.on("close", () => resolve({ session: kept, bytes }));
      });
    const first = await attempt();
    const again = await attempt(first.session);
    expect([first.bytes, again.bytes]).to.deep.equal([0, 0]);
    expect(refused).to.have.length(2);
  });

  it("TLS files that every client would refuse, by name, at the start of the server", async () => {
    const good = await certificate("disk-registry");
    const other = await certificate("disk-registry");
    const ended = await certificate("disk-registry", { validDays: ENDED_DAYS });
    const noise = join(folder, "noise.pem");
    writeFileSync(noise, "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n");
    const cases: [TlsFiles, string][] = [
      [
        { ...good, keyFile: other.keyFile },
        `tls.keyFile ${other.keyFile} is not the key of the certificate in tls.certFile`,
      ],
      [ended, `the certificate in tls.certFile ${ended.certFile} ended at `],
      [{ ...good, keyFile: noise }, `tls.keyFile ${noise} has no readable private key in PEM`],
      [{ ...good, certFile: good.keyFile }, `tls.certFile ${good.keyFile} has no readable certificate in PEM`],
      [{ ...good, caFile: noise }, `tls.caFile ${noise} has no readable certificate in PEM`],
      [{ ...good, caFile: join(folder, "nowhere") }, "cannot read the TLS file"],
    ];
    for (const [tls, words] of cases) {
      const error = await rejection(serve(tls), InvalidArgumentError, words);
      expect(error.message).not.to.contain("secret");
      expect(error.message).not.to.contain("free it");
    }
  });

  it("an address that is not this machine's or is in use", async () => {
    const tls = await certificate("disk-registry");
    const server = () => {
      const one = new RpcServer({ tls, limits: DEFAULT_RPC_SERVER_LIMITS });
      closers.push(() => one.drain());
      return one;
    };
    const port = await server().listen({ host: "127.0.0.1", port: 0 });
    await rejection(
      server().listen({ host: "127.0.0.1", port }),
      Error,
      "in use by another process; stop that process, or configure",
    );
    await rejection(server().listen({ host: "192.0.2.1", port: 0 }), Error, "this machine does not have the address");
  });
});
