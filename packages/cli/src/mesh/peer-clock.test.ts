import { writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { createServer } from "node:tls";
import { UnavailableError } from "@diskmesh/domain";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { runCommandLine } from "../command-line.js";
import { EXIT_CODES } from "../output/exit-codes.js";
import { failureText } from "./peer-clock.js";

const ENDED_DAYS = -1;

describe("the text of a call that failed for a certificate", () => {
  it("has the certificate's validity and this machine's time", async () => {
    const authority = await createAuthority({ commonName: "test", validDays: 1 });
    const { certPem: cert, keyPem: key } = await issueCertificate(authority, {
      identity: { role: "disk-registry", name: "" },
      ...{ commonName: "disk-registry", dnsNames: [], ipAddresses: ["127.0.0.1"] },
      ...{ validDays: ENDED_DAYS, usages: ["server"] },
    });
    const server = createServer({ cert, key }).on("tlsClientError", () => {});
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const ended = new UnavailableError("the other side's certificate has ended");
    expect(await failureText(address, ended)).to.match(
      /has ended; its certificate is valid from \d{4}-.*Z to \d{4}-.*Z, and the clock of this machine shows \d{4}-.*Z$/,
    );
    const { out, code } = await typed("hosts", address, authority);
    expect(out).to.match(
      /ListHosts at .*: .* is valid from \d{4}-.*Z, and the clock of this machine shows \d{4}-.*Z\n$/,
    );
    expect(code).to.equal(EXIT_CODES.unavailable);
    expect((await typed("why service disk-registry", address, authority)).out).to.match(
      /\n +set the clock that is wrong/,
    );
    server.close();
    expect(await failureText(address, ended), "nobody listens").to.equal("the other side's certificate has ended");
    expect(await failureText(address, new Error("other")), "another cause").to.equal("other");
  });

  /** Runs a command with a valid certificate of the authority. */
  async function typed(line: string, address: string, authority: KeyPair) {
    const folder = temporaryFolder();
    const file = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text, { mode: 0o600 });
      return join(folder, name);
    };
    const { certPem, keyPem } = await issueCertificate(authority, {
      identity: { role: "operator", name: "" },
      ...{ commonName: "operator", dnsNames: [], ipAddresses: [], validDays: 1, usages: ["client"] },
    });
    const environment = {
      ...{ DISKMESH_REGISTRY: address, DISKMESH_CA: file("ca.pem", authority.certPem) },
      ...{ DISKMESH_CERT: file("cert.pem", certPem), DISKMESH_KEY: file("key.pem", keyPem) },
    };
    const [out, signal] = [new PassThrough(), new AbortController().signal];
    const surroundings = { out, err: out, environment, workingFolder: folder, signal };
    return { code: await runCommandLine(line.split(" "), surroundings), out: String(out.read()) };
  }
});
