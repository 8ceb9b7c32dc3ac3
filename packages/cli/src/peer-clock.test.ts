import type { AddressInfo } from "node:net";
import { createServer } from "node:tls";
import { UnavailableError } from "@diskmesh/domain";
import { createAuthority, issueCertificate } from "@diskmesh/pki";
import { expect } from "chai";
import { failureText } from "./peer-clock.js";

const ENDED_DAYS = -1;

describe("the text of a call that failed for a certificate", () => {
  it("has the certificate's validity and this machine's time", async () => {
    const authority = await createAuthority({ commonName: "test", validDays: 1 });
    const { certPem: cert, keyPem: key } = await issueCertificate(authority, {
      identity: { role: "director", name: "" },
      ...{ commonName: "director", dnsNames: [], ipAddresses: ["127.0.0.1"] },
      ...{ validDays: ENDED_DAYS, usages: ["server"] },
    });
    const server = createServer({ cert, key }).on("tlsClientError", () => {});
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const ended = new UnavailableError("the other side's certificate has ended");
    expect(await failureText(address, ended)).to.match(
      /has ended; its certificate is valid from \d{4}-.*Z to \d{4}-.*Z, and the clock of this machine shows \d{4}-.*Z$/,
    );
    server.close();
    expect(await failureText(address, ended), "nobody listens").to.equal("the other side's certificate has ended");
    expect(await failureText(address, new Error("other")), "another cause").to.equal("other");
  });
});
