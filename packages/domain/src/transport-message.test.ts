import { expect } from "chai";
import { transportMessage } from "./transport-message.js";

/** Formats an error like OpenSSL 3 in Node. */
const openssl = (code: string, reason: string, alert: number) =>
  `801CECA6167F0000:error:${code}:SSL routines:ssl3_read_bytes:${reason}:../deps/openssl/openssl/ssl/record/rec_layer_s3.c:1605:SSL alert number ${alert}\n`;

describe("transportMessage", () => {
  for (const [said, words] of [
    [
      openssl("0A000412", "sslv3 alert bad certificate", 42),
      "the other side refuses this process's certificate: check that an authority trusted there has issued it, and that it has not ended (sslv3 alert bad certificate)",
    ],
    [
      openssl("0A000415", "sslv3 alert certificate expired", 45),
      "the other side refuses this process's certificate because it has ended: renew it (sslv3 alert certificate expired)",
    ],
    [
      openssl("0A000418", "tlsv1 alert unknown ca", 48),
      "the other side refuses this process's certificate because it does not trust its authority (CA): check the CA file there (tlsv1 alert unknown ca)",
    ],
    [
      "No connection established. Last error: Error: connect ECONNREFUSED 10.0.0.1:7030. Resolution note: ",
      "no process listens there: check the address, and that the process runs (Error: connect ECONNREFUSED 10.0.0.1:7030)",
    ],
    [
      "No connection established. Last error: Failed to connect (2026-01-02T03:04:05.678Z). Resolution note: ",
      "the other side closed the connection before it was established: it may be stopping, lack descriptors, or refuse this process's certificate (see its log) (Failed to connect (2026-01-02T03:04:05.678Z))",
    ],
    ["error:05800074:x509 certificate routines::key values mismatch", /^the key does not belong to the certificate: /],
    [
      "CERT_HAS_EXPIRED",
      "the other side's certificate has ended by the clock of this machine: set this clock if it is wrong, or renew the certificate there (CERT_HAS_EXPIRED)",
    ],
    [
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
      /^this process does not trust the authority \(CA\) of the other side.s certificate/,
    ],
    ["Name resolution failed for target dns:registry", /^the name cannot be looked up: /],
    [
      "h1 is not disk-registry: its certificate names disk-agent h1",
      "h1 is not disk-registry: its certificate names disk-agent h1",
    ],
  ] as const)
    it(`${said.trim().slice(0, 60)} has a meaning`, () => {
      if (typeof words === "string") expect(transportMessage(said)).to.equal(words);
      else expect(transportMessage(said)).to.match(words);
    });

  it("returns one line for a text of any length", () => {
    expect(transportMessage(`ECONNREFUSED ${"x\n".repeat(10_000)}`)).to.match(/^.{1,300}$/);
  });
});
