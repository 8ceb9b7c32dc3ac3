import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createAuthority } from "@diskmesh/pki";
import { leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { shownSerial } from "./operations/tls-asked.js";
import { ReplacedFiles } from "./rotation/replaced-files.js";
import { RotatedFleet } from "./rotation/rotated-fleet.js";
import { ROTATED_HOSTS } from "./rotation/rotated-services.js";

describe("certificates that are renewed under load", function () {
  this.timeout(600_000);

  it("fail no call, heartbeat, read or write, also when another authority signs them and the former ones are revoked", async function () {
    leaveToVerify(this);
    const certificates = new ReplacedFiles(ROTATED_HOSTS);
    const former = await createAuthority({ commonName: "authority 1", validDays: 1 });
    const next = await createAuthority({ commonName: "authority 2", validDays: 1 });
    certificates.trust(former);
    certificates.revokeFormer();
    await certificates.issueAll(former);
    await using rotated = await RotatedFleet.start(certificates);
    await rotated.step(() => certificates.issueAll(former));
    await rotated.step(() => certificates.trust(former, next));
    await rotated.step(() => certificates.issueAll(next));
    await rotated.step(() => certificates.trust(next));
    await rotated.step(() => certificates.revokeFormer());
    expect(rotated.failures).to.deep.equal([]);
    for (const name of ["disk-registry", "cpi-dispatcher", "director"]) {
      const used = new X509Certificate(readFileSync(certificates.files(name).certFile));
      expect(rotated.process(name).logs, name).to.contain(used.serialNumber);
    }
    const shown = await shownSerial({ ...rotated.natsPlace, isNats: true }, certificates.mbusFiles("director"));
    expect(shown).to.equal(new X509Certificate(readFileSync(certificates.files("nats").certFile)).serialNumber);
  });
});
