import type { HostId } from "@diskmesh/domain";
import { expect } from "chai";
import { innerAddressOf, interfaceOf } from "./wireguard-names.js";

const HOSTS = Array.from({ length: 1_000 }, (_, at) => `host-${at}` as HostId);

describe("names of WireGuard", () => {
  it("of a host are the same on each host, and those of two hosts differ", () => {
    expect(innerAddressOf("host-1" as HostId)).to.equal(innerAddressOf("host-1" as HostId));
    expect(new Set(HOSTS.map(innerAddressOf)).size).to.equal(HOSTS.length);
    expect(new Set(HOSTS.map(interfaceOf)).size).to.equal(HOSTS.length);
  });

  it("have the form in which the kernel writes them", () => {
    for (const hostId of HOSTS) {
      const address = innerAddressOf(hostId);
      expect(new URL(`http://[${address}]`).hostname).to.equal(`[${address}]`);
      expect(interfaceOf(hostId)).to.have.length.below(16);
    }
  });
});
