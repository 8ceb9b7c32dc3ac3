import { expect } from "chai";
import type { GroupNetwork } from "../specs/instance-group.js";
import { contains, formatIp, parseCidr, parseIp, parseIpRange } from "../specs/ip.js";
import type { Network, Subnet } from "../specs/subnets.js";
import { type NetworkNeeds, settleNetworks } from "./networks.js";

const subnet = (range: string, more: Partial<Subnet> = {}): Subnet => ({
  range,
  gateway: "",
  azs: [],
  static: [],
  reserved: [],
  dns: [],
  cloudProperties: {},
  ...more,
});
const network = (subnets: Subnet[], type: Network["type"] = "manual"): Network => ({
  name: "n",
  type,
  subnets,
  dns: [],
  cloudProperties: {},
});
const use = (staticIps: string[] = []): GroupNetwork => ({ name: "n", staticIps, default: [], nicGroup: "" });

type Needs = Partial<NetworkNeeds> & { taken?: string[]; foreign?: string[] };

describe("addresses of instances", () => {
  const FREE: [string, Subnet[], Needs, string | RegExp][] = [
    ["an empty subnet", [subnet("10.0.0.0/24")], {}, "10.0.0.1"],
    ["the gateway first", [subnet("10.0.0.0/24", { gateway: "10.0.0.1" })], {}, "10.0.0.2"],
    [
      "reserved and static addresses",
      [subnet("10.0.0.0/24", { reserved: ["10.0.0.1-10.0.0.3"], static: ["10.0.0.4"] })],
      {},
      "10.0.0.5",
    ],
    [
      "ranges within and across each other",
      [
        subnet("10.0.0.0/24", {
          reserved: ["10.0.0.1-10.0.0.20", "10.0.0.3-10.0.0.5", "10.0.0.15-10.0.0.30"],
          static: ["10.0.0.32"],
        }),
      ],
      { taken: ["10.0.0.31"] },
      "10.0.0.33",
    ],
    [
      "its own address, within one of several ranges",
      [subnet("10.0.0.0/24", { reserved: ["10.0.0.1-10.0.0.20", "10.0.0.3"] })],
      { ips: { n: "10.0.0.12" } },
      "10.0.0.21",
    ],
    [
      "all addresses except one reserved",
      [subnet("0.0.0.0/0", { gateway: "0.0.0.1", reserved: ["0.0.0.2-255.255.255.253"] })],
      {},
      "255.255.255.254",
    ],
    ["all addresses reserved", [subnet("0.0.0.0/0", { reserved: ["0.0.0.0/0"] })], {}, /no free address/],
    ["taken addresses", [subnet("10.0.0.0/24")], { taken: ["10.0.0.1"] }, "10.0.0.2"],
    ["its own from before", [subnet("10.0.0.0/24")], { ips: { n: "10.0.0.9" } }, "10.0.0.9"],
    [
      "its own, which is reserved now",
      [subnet("10.0.0.0/24", { reserved: ["10.0.0.9"] })],
      { ips: { n: "10.0.0.9" } },
      "10.0.0.1",
    ],
    [
      "the first subnet full",
      [subnet("10.0.0.0/30"), subnet("10.0.1.0/30")],
      { taken: ["10.0.0.1", "10.0.0.2"] },
      "10.0.1.1",
    ],
    [
      "a subnet of another az",
      [subnet("10.0.0.0/24", { azs: ["z2"] }), subnet("10.0.1.0/24", { azs: ["z1"] })],
      {},
      "10.0.1.1",
    ],
    ["all full", [subnet("10.0.0.0/30")], { taken: ["10.0.0.1", "10.0.0.2"] }, /has no free address in AZ `z1`/],
    ["no subnet in the az", [subnet("10.0.0.0/24", { azs: ["z2"] })], {}, /has no free address in AZ `z1`/],
  ];
  const settle = (subnets: Subnet[], needs: Needs, used = use()) =>
    settleNetworks([used], [network(subnets)], {
      group: "g",
      index: 0,
      az: "z1",
      ips: {},
      isTaken: (_, ip) => needs.taken?.includes(ip) ?? false,
      isForeign: (_, ip) => needs.foreign?.includes(ip) ?? false,
      ...needs,
    }).ips.n;
  for (const [cause, subnets, needs, effect] of FREE) {
    it(`${cause} -> ${effect}`, () => {
      if (effect instanceof RegExp) expect(() => settle(subnets, needs)).to.throw(effect);
      else expect(settle(subnets, needs)).to.equal(effect);
    });
  }

  const STATIC: [string, string[], Needs, string | RegExp][] = [
    ["by index", ["10.0.0.7", "10.0.0.8"], { index: 1 }, "10.0.0.8"],
    ["too few", ["10.0.0.7"], { index: 1 }, /has 1 static_ips in network `n`: instance 1 needs a static ip/],
    ["a sibling's, which gives way", ["10.0.0.7"], { taken: ["10.0.0.7"] }, "10.0.0.7"],
    [
      "another deployment's",
      ["10.0.0.7"],
      { foreign: ["10.0.0.7"] },
      /address 10\.0\.0\.7 of network `n` already belongs to another instance/,
    ],
    ["out of range", ["10.9.0.7"], {}, /address 10\.9\.0\.7 is in no subnet/],
  ];
  for (const [cause, ips, needs, effect] of STATIC) {
    it(`static_ips, ${cause} -> ${effect}`, () => {
      const start = () => settle([subnet("10.0.0.0/24")], needs, use(ips));
      if (effect instanceof RegExp) expect(start).to.throw(effect);
      else expect(start()).to.equal(effect);
    });
  }

  it("every subnet -> prefix describes the single address, and netmask the subnet", () => {
    const needs = { group: "g", index: 0, az: "z1", ips: {}, isTaken: () => false, isForeign: () => false };
    const argument = (used: GroupNetwork, of: Network) => settleNetworks([used], [of], needs).networks.n;
    expect(argument(use(), network([subnet("10.0.0.0/28")]))).to.include({ prefix: "32", netmask: "255.255.255.240" });
    expect(argument(use(), network([], "dynamic"))).to.include({ prefix: "32" });
    expect(argument(use(["1.2.3.4"]), network([], "vip"))).to.include({ prefix: "32" });
  });

  it("a vip network without static_ips -> refused", () => {
    const needs = { group: "g", index: 0, az: "z1", ips: {}, isTaken: () => false, isForeign: () => false };
    expect(() => settleNetworks([use()], [network([], "vip")], needs)).to.throw(/vip network `n` needs static_ips/);
  });
});

describe("IPv6 addresses", () => {
  const WRITTEN: [string, string][] = [
    ["::", "::"],
    ["::1", "::1"],
    ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
    ["2001:db8:0:1:0:0:0:1", "2001:db8:0:1::1"],
    ["::ffff:10.0.0.1", "::ffff:a00:1"],
    ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ];
  for (const [text, shortest] of WRITTEN)
    it(`"${text}" -> "${shortest}"`, () => expect(formatIp(parseIp(text))).to.equal(shortest));

  for (const text of [":", ":::", "1::2::3", "1:2:3:4:5:6:7", "fe80::1%eth0", "[::1]", "::1/64", "::g", "12345::"])
    it(`"${text}" -> refused`, () => expect(() => parseIp(text)).to.throw("is not an IPv4 or IPv6 address"));

  it("networks -> their first and last address and netmask; none contains an address of the other family", () => {
    const { first, last, netmask } = parseCidr("2001:db8::5/64");
    expect([formatIp(first), formatIp(last), netmask]).to.deep.equal([
      "2001:db8::",
      "2001:db8::ffff:ffff:ffff:ffff",
      "ffff:ffff:ffff:ffff::",
    ]);
    expect(contains(parseCidr("::/0"), parseIp("10.0.0.1"))).to.equal(false);
    expect(contains(parseCidr("0.0.0.0/0"), parseIp("::1"))).to.equal(false);
    expect(["::/0", "::/128"].map((text) => parseCidr(text).netmask)).to.deep.equal([
      "::",
      "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ]);
  });

  it("a VM in an IPv6 subnet -> one address, also in a range beyond JavaScript's safe integers", () => {
    const used = { ...use(), nicGroup: "1" };
    const needs = { group: "g", index: 0, az: "z1", ips: {}, isTaken: () => false, isForeign: () => false };
    const subnets = [
      subnet("2001:db8::/64", { gateway: "2001:db8::1", reserved: ["2001:db8::2-2001:db8::ffff:ffff"] }),
    ];
    expect(settleNetworks([used], [network(subnets)], needs).networks.n).to.deep.equal({
      type: "manual",
      ip: "2001:db8::1:0:0",
      prefix: "128",
      netmask: "ffff:ffff:ffff:ffff::",
      gateway: "2001:db8::1",
      cloud_properties: {},
      nic_group: "1",
      default: ["dns", "gateway"],
    });
    const vip = settleNetworks([use(["2001:db8::7"])], [network([], "vip")], needs).networks.n;
    expect(vip).to.include({ ip: "2001:db8::7", prefix: "128" });
  });
});

describe("IPv4 addresses", () => {
  it("parsed and formatted -> equal, up to the highest", () => {
    for (const ip of ["0.0.0.0", "10.0.0.1", "192.168.255.254", "255.255.255.255"])
      expect(formatIp(parseIp(ip))).to.equal(ip);
    expect([0, 8, 24, 29, 32].map((prefix) => parseCidr(`10.0.0.0/${prefix}`).netmask)).to.deep.equal([
      "0.0.0.0",
      "255.0.0.0",
      "255.255.255.0",
      "255.255.255.248",
      "255.255.255.255",
    ]);
  });
  for (const text of ["", "1.2.3", "1.2.3.256", "01.2.3.4", "a.b.c.d", "1.2.3.4.5"]) {
    it(`"${text}" -> refused`, () => expect(() => parseIp(text)).to.throw("is not an IPv4 or IPv6 address"));
  }
  for (const text of ["10.0.0.0/33", "10.0.0.0/", "/24", "10.0.0/8", "2001:db8::/129", "10.0.0.0/024", "::/1e1"]) {
    it(`"${text}" -> no network`, () => expect(() => parseCidr(text)).to.throw(/is no/));
  }
  for (const text of ["10.0.0.2-10.0.0.1", "10.0.0.1-10.0.0.2-10.0.0.3", "x", "10.0.0.1-::1"]) {
    it(`"${text}" -> no range`, () => expect(() => parseIpRange(text)).to.throw(/is no/));
  }
});
