import { documentDatabase, TlsProxy } from "@diskmesh/tablet/testing";
import { eventually, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestRegistries } from "./testing/test-registries.js";

const LEASE_TIME_MS = 150_000;

describe("two disk-registries on a database that requires client certificates", () => {
  let serverUrl: string;

  before(async function () {
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    serverUrl = found.url;
  });

  it("exit with code 1 when the certificate changes, hand over the lease, and use the new certificate after a start", async () => {
    await using proxy = await TlsProxy.start(serverUrl);
    const registries = await TestRegistries.start(proxy.url, LEASE_TIME_MS);
    try {
      const { second, processes } = registries;
      const serialNumber = await proxy.renew();
      await eventually(() => processes.every(({ exit }) => exit !== undefined));
      for (const { exit, logs } of processes) {
        expect(exit?.code).to.equal(1);
        expect(logs).to.contain(`changed: tlsCertificateKeyFile ${proxy.files.pair}`);
        expect(logs).to.contain("its next start uses the new files");
      }
      expect(proxy.connectionsWith(serialNumber)).to.equal(0);
      const startedMs = performance.now();
      await second.start("serving");
      // The lease was handed over, so the successor does not wait for its end.
      expect(performance.now() - startedMs).to.be.below(LEASE_TIME_MS);
      expect(proxy.connectionsWith(serialNumber)).to.be.above(0);
    } finally {
      await registries.stop();
    }
  });
});
