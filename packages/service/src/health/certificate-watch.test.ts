import { type Logger, silentLogger } from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { CertificateWatch } from "./certificate-watch.js";
import { Readiness } from "./readiness.js";

const DAY_MS = 86_400_000;

describe("CertificateWatch", () => {
  it("logs the end once a day from 30 days before, and reports the process not ready at the end", async () => {
    const nowMs = Date.now();
    // Not a whole number of days: a check that runs exactly 30 days before the end could go either way.
    const tls = { endsAtMs: nowMs + 33 * DAY_MS - 1_000 };
    const lines: string[] = [];
    const note = (_fields: object, text: string) => lines.push(text);
    const ended: unknown[] = [];
    const info = (fields: object) => ended.push((fields as { alertEnded?: string }).alertEnded);
    const log = { ...silentLogger, info, warn: note, error: note } as Logger;
    const readiness = new Readiness({ needs: ["certificate"], log: silentLogger });
    readiness.setServing(true);
    const ends: string[] = [];
    const clock = new ManualClock(nowMs);
    const onEnded = ({ message }: Error) => ends.push(message);
    const watch = new CertificateWatch({ tls, certFile: "/etc/cert.pem", readiness, clock, log, onEnded });
    expect(readiness.report().ready).to.equal(true);
    await clock.advance(2 * DAY_MS);
    expect(lines).to.deep.equal([]);
    await clock.advance(1.5 * DAY_MS);
    expect(lines).to.have.length(1);
    expect(lines[0]).to.match(/^the certificate in tls\.certFile .*cert\.pem ends in 29 days, at .*: renew it/);
    await clock.advance(DAY_MS);
    expect(lines).to.have.length(2);
    await clock.advance(28.6 * DAY_MS);
    expect(ends).to.have.length(1);
    expect(ends[0]).to.match(/^the certificate in tls\.certFile .*cert\.pem ended at .*: renew it$/);
    expect(readiness.report()).to.include({ ready: false, why: `certificate: ${ends[0]}` });
    tls.endsAtMs += 90 * DAY_MS;
    await clock.advance(1_000);
    expect(readiness.report().ready).to.equal(true);
    expect(ended).to.deep.equal(["certificate_ended", "certificate_ends"]);
    await clock.advance(90 * DAY_MS);
    expect(ends).to.have.length(2);
    watch.close();
  });
});
