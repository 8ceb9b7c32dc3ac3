import type { Role } from "@diskmesh/domain";
import { methodsOfRole, scopedMethods } from "@diskmesh/testkit";
import { expect } from "chai";
import { addServices } from "./services.js";

describe("the callers of a registry", () => {
  it("each operator's role allows what its name says, and only the first allows more", () => {
    const of = methodsOfRole((server) => addServices(server, () => expect.fail()));
    const reads = of("operator-reader");
    for (const method of reads) expect(method).to.match(/^(get|list|watch|explain)/);
    expect(of("operator-deployments")).to.deep.equal(reads);
    const changes = (role: Role) => of(role).filter((method) => !reads.includes(method));
    const [disks, hosts] = [changes("operator-disks"), changes("operator-hosts")];
    for (const method of disks)
      expect(method)
        .to.match(/Disk|Host$/)
        .and.not.match(/add|remove|purge|fence/i);
    for (const method of hosts)
      expect(method)
        .to.match(/Host|Device|^migrateDisk$|^cancelMove$|JoinToken$/)
        .and.not.match(/assign/i);
    const all = ["adoptFleet", "raiseNumbers", "decideUnknownDisks", "createBackup"];
    expect(changes("operator")).to.have.members([...disks, ...hosts, ...all]);
    expect(changes("disk-agent")).to.deep.equal(["registerAgent", "heartbeat", "renewCertificate"]);
    expect(scopedMethods((server) => addServices(server, () => expect.fail()))).to.deep.equal([]);
  });
});
