import { expect } from "chai";
import type { Instance } from "../store/instance.js";
import { applySpec, withFoundAddresses } from "./apply-spec.js";
import { newInstance } from "./instance.js";

const instance: Instance = {
  ...newInstance({ instanceId: "i-1", deployment: "d", group: "db", index: 2, az: "z1" }),
  networks: {
    own: { type: "manual", ip: "10.0.0.7", netmask: "255.255.255.0" },
    cloud: { type: "dynamic", dns: ["10.0.0.2"] },
  },
};

describe("the apply spec of an agent", () => {
  it("contains deployment, group, index, id, az, networks and persistent disk", () => {
    expect(applySpec(instance, 1024)).to.deep.include({
      deployment: "d",
      name: "db",
      index: 2,
      id: "i-1",
      az: "z1",
      networks: instance.networks,
      persistent_disk: 1024,
    });
  });

  it("contains no hash, so that the agent installs nothing", () => {
    expect(applySpec(instance, 0)).to.deep.include({ configuration_hash: "" });
  });
});

describe("addresses reported by agents", () => {
  const cases: [what: string, state: unknown, cloud: object][] = [
    [
      "of a dynamic network are taken over",
      { networks: { cloud: { ip: "10.9.0.4", netmask: "255.0.0.0", gateway: "10.0.0.1", mac: "aa" } } },
      { type: "dynamic", dns: ["10.0.0.2"], ip: "10.9.0.4", netmask: "255.0.0.0", gateway: "10.0.0.1" },
    ],
    [
      "that are none are not",
      { networks: { cloud: { ip: "<script>", gateway: 5 } } },
      { type: "dynamic", dns: ["10.0.0.2"] },
    ],
    [
      "in networks that it has not are not",
      { networks: { other: { ip: "10.9.0.4" } } },
      { type: "dynamic", dns: ["10.0.0.2"] },
    ],
    ["are none when it says nothing", undefined, { type: "dynamic", dns: ["10.0.0.2"] }],
  ];
  for (const [what, state, cloud] of cases)
    it(what, () => expect(withFoundAddresses(instance, state).networks.cloud).to.deep.equal(cloud));

  it("for a manual network change nothing", () => {
    const state = { networks: { own: { ip: "10.66.66.66" } } };
    expect(withFoundAddresses(instance, state).networks.own).to.deep.equal(instance.networks.own);
  });
});
