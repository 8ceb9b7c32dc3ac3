import { expect } from "chai";
import { LIMITS } from "../testing/manifest-check.js";
import { parseCloudConfig } from "./cloud-config.js";

describe("accepted and refused cloud configs, row by row", () => {
  const subnets = (...list: string[]): string => `networks:\n- name: net\n  subnets:\n  - ${list.join("\n  - ")}\n`;
  const CLOUDS: [string, string, RegExp][] = [
    [
      "a static address that is reserved",
      subnets("{range: 10.0.0.0/24}", "{range: 10.0.1.0/24, static: [10.0.1.5-10.0.1.9], reserved: [10.0.1.9]}"),
      /line 5: networks\.0\.subnets\.1: some of its static addresses are reserved/,
    ],
    [
      "a static address that is the gateway",
      subnets("{range: 10.0.0.0/24, gateway: 10.0.0.1, static: [10.0.0.1]}"),
      /static addresses is its gateway/,
    ],
    ["a static address that is the network's", subnets("{range: 10.0.0.0/24, static: [10.0.0.0]}"), /own address/],
    ["static outside", subnets("{range: 10.0.0.0/24, static: [10.0.1.5]}"), /static addresses outside of its range/],
    ["reserved outside", subnets("{range: 10.0.0.0/24, reserved: [10.0.1.5]}"), /reserves addresses outside/],
    ["the gateway outside", subnets("{range: 10.0.0.0/24, gateway: 10.0.1.1}"), /gateway is outside of its range/],
    ["the gateway the network's", subnets("{range: 10.0.0.0/24, gateway: 10.0.0.0}"), /gateway is the subnet's own/],
    [
      "static addresses of the other family",
      subnets('{range: "2001:db8::/64", static: [10.0.0.5]}'),
      /static addresses outside of its range/,
    ],
    [
      "blocks of addresses for VMs",
      subnets('{range: "2001:db8::/64", prefix: 80}'),
      /line 4: networks\.0\.subnets\.0\.prefix: VMs get no blocks of addresses: leave it out, or give 128/,
    ],
    ["az and azs", subnets("{range: 10.0.0.0/24, az: z1, azs: [z1]}"), /subnets\.0: give az or azs, not both/],
    ["no azs", subnets("{range: 10.0.0.0/24, azs: []}"), /subnets\.0\.azs: give at least one az/],
    [
      "subnets within each other",
      subnets("{range: 10.0.0.0/16}", "{range: 10.0.3.0/24}"),
      /line 2: networks\.0: two of its subnets overlap/,
    ],
  ];
  for (const [cause, cloud, effect] of CLOUDS)
    it(`cloud config: ${cause} -> refused, with the position; stored -> read as before`, () => {
      expect(() => parseCloudConfig(cloud, { ...LIMITS, what: "cloud config" })).to.throw(effect);
      expect(parseCloudConfig(cloud, { ...LIMITS, what: "cloud config", stored: true }).networks).to.have.length(1);
    });

  it("cloud config: prefix of a single address, BOSH's default -> accepted", () => {
    const cloud = subnets("{range: 10.0.0.0/24, prefix: 32}", '{range: "2001:db8::/64", prefix: "128"}');
    expect(parseCloudConfig(cloud, { ...LIMITS, what: "cloud config" }).networks).to.have.length(1);
  });
});
