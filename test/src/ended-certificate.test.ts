import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createAuthority, issueCertificate } from "@diskmesh/pki";
import { ensureTablet } from "@diskmesh/tablet/testing";
import { eventually, freePort, ServiceProcess, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { repositoryFolder } from "./repository-folder.js";

/** Validity in days, longer than a start normally takes. A slower start is refused for the same reason. */
const VALID_DAYS = 8 / 86_400;

describe("a registry whose certificate ends", () => {
  it("gives up the lead, exits with the name of the expired file, and does not start again", async () => {
    const folder = temporaryFolder();
    const authority = await createAuthority({ commonName: "ours", validDays: 1 });
    const { certPem, keyPem } = await issueCertificate(authority, {
      identity: { role: "disk-registry", name: "" },
      commonName: "disk-registry",
      dnsNames: [],
      ipAddresses: ["127.0.0.1"],
      validDays: VALID_DAYS,
      usages: ["server", "client"],
    });
    const [caFile, certFile, keyFile] = [join(folder, "ca.pem"), join(folder, "cert.pem"), join(folder, "key.pem")];
    for (const [file, text] of [
      [caFile, authority.certPem],
      [certFile, certPem],
      [keyFile, keyPem],
    ] as const)
      writeFileSync(file, text);
    const tls = { caFile, certFile, keyFile };
    const port = await freePort();
    const storage = join(folder, "state");
    await ensureTablet({ storage, name: "registry" });
    const service = new ServiceProcess({
      name: "disk-registry",
      mainFile: join(repositoryFolder, "services/disk-registry/dist/main.js"),
      folder,
      config: { listen: { host: "127.0.0.1", port }, tls, tablet: { storage } },
      health: { address: `127.0.0.1:${port}`, tls, serverRole: "disk-registry" },
      waitFor: "nothing",
    });
    await using _ended = service;
    for (const what of ["has failed", "cannot start"]) {
      await service.start();
      await eventually(() => service.exit !== undefined);
      expect(service.exit).to.deep.equal({ code: 1, signal: null });
      const last = JSON.parse(service.logs.trimEnd().split("\n").at(-1) as string) as { message: string };
      expect(last.message).to.match(
        new RegExp(`^disk-registry (?:${what}|cannot start): .*${certFile} ended at .*: renew it`),
      );
    }
  });
});
