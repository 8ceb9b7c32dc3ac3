import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import {
  type ActionRow,
  actions,
  attached,
  dirty,
  held,
  publishedTo,
  silentSince,
  testActions,
} from "../../testing/cms-actions.js";
import { aDisk, aHost, diskId, hostId, TestFleet } from "../../testing/fleet-fixture.js";

const rows: readonly ActionRow[] = [
  {
    cause: "PurgeHost with dirty devices names them",
    action: "purgeHost",
    code: "S_OK",
    says: "not erased, so they still have their data: d1",
    unerased: ["d1"],
    fleet: { devices: [attached("d1", dirty), attached("d2")] },
  },
  {
    cause: "PurgeHost with a disk",
    action: "purgeHost",
    code: "INVALID_STATE",
    says: "holds or serves 1 disk: delete or detach them first, or purge with force: x",
    fleet: { devices: [held("d1", "x")] },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "PurgeHost of a VM",
    action: "purgeHost",
    code: "INVALID_STATE",
    says: "host h1 is VM vm-1: delete the VM with its director first",
    fleet: { hosts: [aHost("h1", { assignment: { vmCid: "vm-1", assignedAtMs: 0 } })], devices: [attached("d1")] },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "PurgeHost of a VM, with force",
    action: "purgeHostForce",
    code: "S_OK",
    says: "and VM vm-1; run cloud-check at its director",
    fleet: { hosts: [aHost("h1", { assignment: { vmCid: "vm-1", assignedAtMs: 0 } })], devices: [attached("d1")] },
    devices: { d1: null },
  },
  {
    cause: "PurgeHost without disks, of a host that is heard: what its agent will do is said",
    action: "purgeHost",
    code: "S_OK",
    says: "host h1 is forgotten with its 1 device; while its agent runs, it registers the host again",
    fleet: { devices: [attached("d1")] },
    devices: { d1: null },
  },
  {
    cause: "PurgeHost with a disk and force",
    action: "purgeHostForce",
    code: "S_OK",
    dependent: ["x"],
    says: "these disks have lost devices: x",
    unerased: ["d1"],
    fleet: { devices: [held("d1", "x")], disks: [aDisk("x", ["d1"])] },
    devices: { d1: null },
  },
  {
    cause: "PurgeDevice of an ONLINE host: ordered detached",
    action: "purgeD1",
    code: "S_OK",
    fleet: { devices: [attached("d1")] },
    devices: { d1: "UNKNOWN 101 dirty" },
  },
  {
    cause: "PurgeDevice of an UNAVAILABLE host",
    action: "purgeD1",
    code: "S_OK",
    fleet: { hosts: silentSince(0), devices: [attached("d1")] },
    devices: { d1: null },
  },
  {
    cause: "PurgeDevice with a disk",
    action: "purgeD1",
    code: "INVALID_STATE",
    says: "holds or serves 1 disk: delete or detach them first, or purge with force: x",
    fleet: { devices: [held("d1", "x")] },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "PurgeDevice with a disk and force",
    action: "purgeD1Force",
    code: "S_OK",
    unerased: ["d1"],
    dependent: ["x"],
    fleet: { devices: [held("d1", "x")], disks: [aDisk("x", ["d1"])] },
    devices: { d1: "UNKNOWN 101 dirty" },
  },
];

describe("CMS actions that purge", () => {
  testActions(rows);

  it("fence a disk off from a host that serves it, with force", () => {
    const publication = publishedTo("h1", "PUBLISHED");
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2")],
      devices: [attached("d9", { hostId: hostId("h2"), diskId: diskId("x") })],
      disks: [aDisk("x", ["d9"], { publication })],
    });
    expect(() => fleet.transact(actions.purgeHost)).to.throw(InvalidStateError, "serves 1 disk");
    expect(fleet.transact(actions.purgeHostForce).code).to.equal("S_OK");
    expect(fleet.disk("x").publication).to.include({ state: "UNPUBLISHING", sessionNumber: 201 });
  });
});
