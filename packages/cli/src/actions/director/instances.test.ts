import { expect } from "chai";
import { sharedAddresses } from "./instances.js";

describe("addresses of instances", () => {
  const instance = (index: number, networks: object, vmCid = `vm-${index}`) => ({
    group: "db",
    index,
    vmCid,
    networks: { ...networks },
  });

  it("warns of two VMs with one address in a network", () => {
    const shared = [0, 1, 2].map((index) => instance(index, { own: { ip: `10.0.0.${Math.min(index, 1)}` } }));
    expect(sharedAddresses(shared)).to.deep.equal([
      "the VMs of db/1 and db/2 have one address 10.0.0.1 in network own: recreate one of them",
    ]);
  });

  it("does not warn of an address in two networks, of an instance without a VM, and of no address", () => {
    const ip = "10.0.0.1";
    const apart = [
      instance(0, { own: { ip } }),
      instance(1, { other: { ip } }),
      instance(2, { own: { ip } }, ""),
      instance(3, { own: { ip: "" }, more: null }),
      instance(4, { own: { ip: "" }, more: null }),
    ];
    expect(sharedAddresses(apart)).to.deep.equal([]);
  });
});
