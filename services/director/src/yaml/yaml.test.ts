import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { parseCloudConfig } from "./cloud-config.js";
import { parseManifest } from "./manifest.js";

const CLOUD = { what: "cloud config `default`", sizeBytes: 10_000 };
const MANIFEST = { what: "manifest", sizeBytes: 10_000, instances: 10 };

function errorOf(parse: () => unknown): string {
  try {
    parse();
  } catch (error) {
    expect(error).to.be.instanceOf(InvalidArgumentError);
    return (error as Error).message;
  }
  throw new Error("it was accepted");
}

describe("cloud configs in YAML", () => {
  it("BOSH's whole format -> what we use of it, the rest let be", () => {
    const config = parseCloudConfig(
      `azs: [{name: z1, cpi: east, cloud_properties: {rack: 3}}, {name: z2}]
vm_types: [{name: default, cloud_properties: {ram: 1024}}]
disk_types: [{name: fast, disk_size: 1024, cloud_properties: {pool: ssd}, later: true}]
vm_extensions: [{name: public}]
networks:
- {name: default, type: dynamic, subnets: [{azs: [z1]}]}
- name: private
  subnets:
  - range: 10.0.0.0/24
    gateway: 10.0.0.1
    az: z2
    static: 10.0.0.10 - 10.0.0.12
    reserved: [10.0.0.2]
    dns: [10.0.0.2]
    cloud_properties: {net: n}
compilation: {workers: 3, network: default}
`,
      CLOUD,
    );
    expect(config).to.deep.equal({
      azs: [
        { name: "z1", cpi: "east", cloudProperties: { rack: 3 } },
        { name: "z2", cpi: "", cloudProperties: {} },
      ],
      vmTypes: [{ name: "default", cloudProperties: { ram: 1024 } }],
      vmExtensions: [{ name: "public", cloudProperties: {} }],
      diskTypes: [{ name: "fast", sizeMib: 1024, cloudProperties: { pool: "ssd" } }],
      networks: [
        {
          name: "default",
          type: "dynamic",
          subnets: [{ range: null, gateway: "", azs: ["z1"], static: [], reserved: [], dns: [], cloudProperties: {} }],
          dns: [],
          cloudProperties: {},
        },
        {
          name: "private",
          type: "manual",
          subnets: [
            {
              range: { first: 0x0a000000, last: 0x0a0000ff, prefix: 24 },
              gateway: "10.0.0.1",
              azs: ["z2"],
              static: [{ first: 0x0a00000a, last: 0x0a00000c }],
              reserved: [{ first: 0x0a000002, last: 0x0a000002 }],
              dns: ["10.0.0.2"],
              cloudProperties: { net: "n" },
            },
          ],
          dns: [],
          cloudProperties: {},
        },
      ],
    });
  });

  const BAD: [string, string, RegExp][] = [
    ["empty", " \n", /is empty/],
    ["too long", `# ${"x".repeat(10_000)}`, /has 10002 bytes: the limit is 10000/],
    ["not YAML", "azs:\n- name: z1\n  name: {", /not valid YAML: line 3/],
    ["a key twice", "azs: []\nazs: []\n", /not valid YAML: line 2: .*unique/],
    ["a list", "- a\n", /line 1: the document: .*expected object/i],
    ["an az without a name", "azs:\n- name: z1\n- cpi: x\n", /line 3: azs\.1\.name/],
    ["a malformed name", 'azs:\n- name: "../z1"\n', /line 2: azs\.0\.name: the name "\.\.\/z1" is malformed/],
    ["a name that is a number", "azs:\n- name: 1\n", /line 2: azs\.0\.name: .*expected string/i],
    ["no disk size", "disk_types:\n- name: a\n", /line 2: disk_types\.0\.disk_size/],
    ["a negative disk size", "disk_types:\n- name: a\n  disk_size: -1\n", /line 3: disk_types\.0\.disk_size/],
    ["a disk size in words", "disk_types:\n- name: a\n  disk_size: 10G\n", /line 3: disk_types\.0\.disk_size/],
    ["a network of an unknown type", "networks:\n- {name: a, type: mesh}\n", /line 2: networks\.0\.type/],
    ["a manual subnet without range", "networks:\n- {name: a, type: manual, subnets: [{}]}\n", /needs a range/],
    ["a range that is none", "networks:\n- {name: a, subnets: [{range: 10.0.0.0/40}]}\n", /no range of IPv4/],
    ["a value that JSON lacks", "azs:\n- name: a\n  cloud_properties: {x: .inf}\n", /line 3: azs\.0\.cloud_properties/],
    [
      "aliases that explode",
      `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [${"*a,".repeat(9)}]\nc: &c [${"*b,".repeat(9)}]\nd: [${"*c,".repeat(9)}]\n`,
      /cannot be read: .*alias/i,
    ],
  ];
  for (const [cause, content, effect] of BAD) {
    it(`${cause} -> refused, with the place`, () => {
      expect(errorOf(() => parseCloudConfig(content, CLOUD))).to.match(effect);
    });
  }
});

describe("manifests in YAML", () => {
  it("BOSH's whole format -> what we use of it, the rest let be", () => {
    const text = `name: web
releases: []
stemcells: [{alias: default, os: ubuntu, version: latest}]
update: {canaries: 1, max_in_flight: 1, canary_watch_time: 1000-60000, update_watch_time: 1000}
instance_groups:
- {name: db, instances: 2, azs: [z1, z2], jobs: [], vm_type: default, stemcell: default, networks: [{name: default}]}
`;
    expect(parseManifest(text, MANIFEST)).to.deep.equal({
      name: "web",
      stemcells: [{ alias: "default", os: "ubuntu", name: "", version: "latest" }],
      tags: {},
      groups: [
        {
          name: "db",
          instances: 2,
          azs: ["z1", "z2"],
          vmType: "default",
          vmExtensions: [],
          stemcell: "default",
          networks: [{ name: "default", staticIps: [], default: [] }],
          env: {},
        },
      ],
    });
  });

  const group = (more: string): string =>
    `name: web\ninstance_groups:\n- {name: db, instances: 1, azs: [z1]}\n- ${more}\n`;
  const BAD: [string, string, RegExp][] = [
    ["no name", "instance_groups: []\n", /line 1: name/],
    ["a malformed name", "name: /etc\n", /line 1: name: the name "\/etc" is malformed/],
    ["no azs", group("{name: web, instances: 1}"), /line 4: instance_groups\.1\.azs/],
    ["empty azs", group("{name: web, instances: 1, azs: []}"), /line 4: .*give at least one az/],
    ["an az twice", group("{name: web, instances: 1, azs: [z1, z1]}"), /names az `z1` twice in instance group `web`/],
    ["a group twice", group("{name: db, instances: 1, azs: [z1]}"), /two instance groups named `db`/],
    ["a negative count", group("{name: web, instances: -1, azs: [z1]}"), /line 4: instance_groups\.1\.instances/],
    ["half an instance", group("{name: web, instances: 0.5, azs: [z1]}"), /line 4: instance_groups\.1\.instances/],
    [
      "two networks of a name",
      group("{name: web, instances: 1, azs: [z1], networks: [{name: a}, {name: a}]}"),
      /`a` twice/,
    ],
    ["a stemcell without alias", group("{name: web, instances: 1, azs: [z1], stemcell: x}"), /which is no alias/],
    [
      "vm_resources",
      group("{name: web, instances: 1, azs: [z1], vm_resources: {cpu: 1}}"),
      /vm_resources: is not supported/,
    ],
    [
      "two kinds of disk",
      group("{name: web, instances: 1, azs: [z1], persistent_disk: 1, persistent_disk_type: a}"),
      /not both/,
    ],
    [
      "a static ip that is none",
      group("{name: web, instances: 1, azs: [z1], networks: [{name: a, static_ips: [x]}]}"),
      /no IPv4/,
    ],
    ["no YAML, with a secret", 'name: "hush" "hush"', /^(?!.*hush).*not valid YAML: line 1/],
    ["too many in all", group("{name: web, instances: 10, azs: [z1]}"), /wants 11 instances: the limit is 10/],
  ];
  for (const [cause, text, effect] of BAD) {
    it(`${cause} -> refused, with the place`, () => {
      expect(errorOf(() => parseManifest(text, MANIFEST))).to.match(effect);
    });
  }
});
