import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createAuthority } from "@diskmesh/pki";
import { leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { ReplacedFiles, RotatedMesh } from "./rotation/rotated-mesh.js";

describe("certificates that are renewed under load", function () {
  this.timeout(600_000);

  it("also by another authority, the former ones revoked -> no failed call, heartbeat, read or write", async function () {
    leaveToVerify(this);
    const certificates = new ReplacedFiles();
    const former = await createAuthority({ commonName: "authority 1", validDays: 1 });
    const next = await createAuthority({ commonName: "authority 2", validDays: 1 });
    certificates.trust(former);
    certificates.revokeFormer();
    await certificates.issueAll(former);
    await using rotated = await RotatedMesh.start(certificates);
    await rotated.step(() => certificates.issueAll(former));
    await rotated.step(() => certificates.trust(former, next));
    await rotated.step(() => certificates.issueAll(next));
    await rotated.step(() => certificates.trust(next));
    await rotated.step(() => certificates.revokeFormer());
    expect(rotated.failures).to.deep.equal([]);
    const shown = new X509Certificate(readFileSync(certificates.files("disk-registry").certFile));
    expect(rotated.mesh.registries[0]?.logs).to.contain(shown.serialNumber);
  });
});
