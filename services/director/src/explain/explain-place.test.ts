import { PublicationState } from "@diskmesh/api/registry";
import { expect } from "chai";
import type { Disk } from "../store/disk.js";
import { placeCause, type RegistryPlace } from "./explain-place.js";

const disk = (fields: Partial<Disk>): Disk =>
  ({ name: "scratch", diskCid: "disk-1", deployment: "", vmCid: "", instanceId: "", ...fields }) as Disk;
const onHost = disk({ state: "attached", hostId: "host-1", vmCid: "host/host-1" });
const inVm = disk({ state: "attached", deployment: "web", instanceId: "i-1", vmCid: "vm-1" });
const at = (hostId: string, vmCid = "", state: PublicationState = PublicationState.PUBLISHED): RegistryPlace => ({
  ...{ hostId, vmCid, state },
});

describe("director and registry about one disk", () => {
  const rows: readonly [
    what: string,
    disk: Disk,
    place: RegistryPlace | null | undefined,
    says: RegExp,
    cure: string,
  ][] = [
    ["agree about its host", onHost, at("host-1"), /^$/, ""],
    ["agree about its VM", inVm, at("host-1", "vm-1"), /^$/, ""],
    ["agree that nobody has it", disk({ state: "detached" }), null, /^$/, ""],
    ["are at work on it", disk({ state: "attaching", hostId: "host-1" }), null, /^$/, ""],
    ["are not yet done", disk({ state: "detached" }), at("host-1", "", PublicationState.UNPUBLISHING), /^$/, ""],
    ["a disk of a CPI, which no registry knows", inVm, undefined, /^$/, ""],
    [
      "only the director has it attached",
      onHost,
      null,
      /^this director has disk scratch \(disk-1\) as attached to host host-1, and its disk-registry has it published nowhere: one of the two was restored/,
      "diskmesh detach scratch",
    ],
    [
      "they have it at two hosts",
      onHost,
      at("host-2"),
      /host-1, and .* published to host host-2/,
      "diskmesh detach scratch",
    ],
    [
      "they have it at two VMs",
      inVm,
      at("host-2", "vm-2"),
      /to VM vm-1, and .* host host-2/,
      "diskmesh detach scratch",
    ],
    [
      "only the registry has it at a host",
      disk({ state: "detached" }),
      at("host-3"),
      /as detached, and its disk-registry has it published to host host-3/,
      "diskmesh attach scratch --host host-3",
    ],
    ["only the director knows it", onHost, undefined, /no disk-registry knows it/, ""],
  ];
  it("a fence is explained by the registry alone", () => {
    expect(placeCause(onHost, { place: undefined, isFenced: true })).to.equal(undefined);
  });

  for (const [what, of, place, says, command] of rows)
    it(`${what} -> ${says.source === "^$" ? "no cause" : "RECORDS_DIFFER"}`, () => {
      const registered = place === undefined ? undefined : { place: place ?? undefined, isFenced: false };
      const found = placeCause(of, registered);
      expect(found?.message ?? "").to.match(says);
      expect(found?.cures?.[0]?.[1] ?? "").to.equal(command);
    });
});
