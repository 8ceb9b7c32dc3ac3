import { CreateVmRequest, SetCpiConfigRequest } from "@diskmesh/api/cpi";
import { InvalidArgumentError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import fc from "fast-check";
import { vmEnv } from "../instances/vm-spec.js";
import { parseCloudConfig } from "./cloud-config.js";
import { comparableLines } from "./comparable.js";
import { parseCpiConfig } from "./cpi-config.js";
import { readYaml, storedLimits } from "./document.js";
import { parseManifest } from "./manifest.js";
import { MAX_YAML_DEPTH } from "./plain.js";
import { parseResurrectionConfig } from "./resurrection-config.js";

const CLOUD = { what: "cloud config `default`", sizeBytes: 10_000 };
const MANIFEST = { what: "manifest", sizeBytes: 10_000, instances: 10, ignoreJobs: false };

describe("cloud configs in YAML", () => {
  it("BOSH's whole format -> the known parts are read, the rest is ignored", () => {
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
          subnets: [{ range: "", gateway: "", azs: ["z1"], static: [], reserved: [], dns: [], cloudProperties: {} }],
          dns: [],
          cloudProperties: {},
        },
        {
          name: "private",
          type: "manual",
          subnets: [
            {
              range: "10.0.0.0/24",
              gateway: "10.0.0.1",
              azs: ["z2"],
              static: ["10.0.0.10 - 10.0.0.12"],
              reserved: ["10.0.0.2"],
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
    ["a range that is none", "networks:\n- {name: a, subnets: [{range: 10.0.0.0/40}]}\n", /not an address range/],
    ["a value that JSON lacks", "azs:\n- name: a\n  cloud_properties: {x: .inf}\n", /line 3: azs\.0\.cloud_properties/],
    [
      "a variable",
      "compilation: {az: ((z))}\nvm_types:\n- name: a\n  cloud_properties: {zone: pre-((zone))}\n",
      /expected: line 4: vm_types\.0\.cloud_properties\.zone: contains a \(\(variable\)\)/,
    ],
    [
      "aliases that explode",
      `a: &a [${"x".repeat(9_000)}]\nb: &b [${"*a,".repeat(20)}]\nc: [${"*b,".repeat(20)}]\n`,
      /cannot be read: it has too many bytes once its aliases are expanded/,
    ],
  ];
  for (const [cause, content, effect] of BAD) {
    it(`${cause} -> refused, with the position`, () => {
      expect(() => parseCloudConfig(content, CLOUD)).to.throw(InvalidArgumentError, effect);
    });
  }
});

describe("any text", () => {
  const BITS = ["&a ", "*a", "<<: *a\n", "!!binary ", "!!set {a}", "!!omap ", "!<x> ", "? ", "- ", "-\t", ": ", "|2\n"];
  const MORE = [">-\n", "---\n", "...\n", "%YAML 1.1\n", "#", "'", '"', "\t", "\r", "{", "[", "}", "]", "~", "1e400"];
  const WORDS = [
    "azs",
    "cpis",
    "name",
    "instance_groups",
    "instances: 1\n",
    "\n",
    "  ",
    ",",
    "z1",
    "\0",
    "\ufeff",
    "\ud800",
  ];
  const yaml = fc.array(fc.constantFrom(...BITS, ...MORE, ...WORDS), { maxLength: 30 }).map((bits) => bits.join(""));

  for (const [what, read] of [
    ["a cloud config", (text: string) => parseCloudConfig(text, CLOUD)],
    ["a cpi config", (text: string) => parseCpiConfig(text, CLOUD)],
    ["a manifest", (text: string) => parseManifest(text, MANIFEST)],
    ["a stored text", (text: string) => readYaml(text, storedLimits("text"))],
  ] as const)
    it(`as ${what} -> read or refused`, () => {
      fc.assert(
        fc.property(fc.oneof(yaml, fc.string({ unit: "binary" })), (text) => {
          try {
            read(text);
          } catch (error) {
            expect(error).to.be.instanceOf(InvalidArgumentError);
          }
        }),
        { numRuns: 200 },
      );
    });

  it("of JSON without large numbers -> its value", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        expect(readYaml(text, storedLimits("text"))).to.deep.equal(JSON.parse(text));
      }),
      { numRuns: 200 },
    );
  });
});

describe("manifests in YAML", () => {
  it("BOSH's whole format -> the known parts are read, the rest is ignored", () => {
    const text = `name: web
releases: []
stemcells: [{alias: default, os: ubuntu, version: latest}]
update: {canaries: 1, max_in_flight: 1, canary_watch_time: 1000-60000, update_watch_time: 1000}
instance_groups:
- {name: db, instances: 2, azs: [z1, z2], jobs: [], vm_type: default, stemcell: default, networks: [{name: default}], update: {max_in_flight: 50%}}
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
          networks: [{ name: "default", staticIps: [], default: [], nicGroup: "" }],
          env: {},
          migratedFrom: [],
          update: {
            canaries: "1",
            maxInFlight: "50%",
            canaryWatchTime: { minMs: 1_000, maxMs: 60_000 },
            updateWatchTime: { minMs: 1_000, maxMs: 1_000 },
            serial: true,
          },
        },
      ],
      warnings: [],
    });
  });

  const group = (more: string): string =>
    `name: web\ninstance_groups:\n- {name: db, instances: 1, azs: [z1]}\n- ${more}\n`;
  const BAD: [string, string, RegExp][] = [
    ["no name", "instance_groups: []\n", /line 1: name/],
    ["a malformed name", "name: /etc\n", /line 1: name: the name "\/etc" is malformed/],
    ["empty azs", group("{name: web, instances: 1, azs: []}"), /line 4: .*give at least one az/],
    ["an az twice", group("{name: web, instances: 1, azs: [z1, z1]}"), /names az `z1` twice in instance group `web`/],
    ["a group twice", group("{name: db, instances: 1, azs: [z1]}"), /two instance groups named `db`/],
    ["a negative count", group("{name: web, instances: -1, azs: [z1]}"), /line 4: instance_groups\.1\.instances/],
    ["half an instance", group("{name: web, instances: 0.5, azs: [z1]}"), /line 4: instance_groups\.1\.instances/],
    [
      "two networks of a name",
      group("{name: web, instances: 1, azs: [z1], networks: [{name: a, default: [dns, gateway]}, {name: a}]}"),
      /`a` twice/,
    ],
    [
      "a stemcell without alias",
      group("{name: web, instances: 1, azs: [z1], stemcell: x}"),
      /has no stemcell with that alias/,
    ],
    [
      "vm_resources",
      group("{name: web, instances: 1, azs: [z1], vm_resources: {cpu: 1}}"),
      /vm_resources: is not supported: give vm_type/,
    ],
    [
      "two kinds of disk",
      group("{name: web, instances: 1, azs: [z1], persistent_disk: 1, persistent_disk_type: a}"),
      /not both/,
    ],
    [
      "a static ip that is none",
      group("{name: web, instances: 1, azs: [z1], networks: [{name: a, static_ips: [x]}]}"),
      /not an IPv4/,
    ],
    ["no YAML, with a secret", 'name: "hush" "hush"', /^(?!.*hush).*not valid YAML: line 1/],
    ["a truncated text", "name: x\nazs: [z1", /line 2: the indentation is wrong, or a list or mapping is not closed/],
    ["a tab", "name: x\n\tazs: []", /not valid YAML: line 2: (?![A-Z_]+$)/],
    ["too many in all", group("{name: web, instances: 10, azs: [z1]}"), /wants 11 instances: the limit is 10/],
  ];
  for (const [cause, text, effect] of BAD) {
    it(`${cause} -> refused, with the position`, () => {
      expect(() => parseManifest(text, MANIFEST)).to.throw(InvalidArgumentError, effect);
    });
  }
});

describe("limits of YAML", () => {
  const lines = (count: number, line: (index: number) => string): string =>
    Array.from({ length: count }, (_, index) => `${line(index)}\n`).join("");
  const read = (text: string): unknown => readYaml(text, { what: "text", sizeBytes: 1_000_000 });
  const aliasesInAliases = (depth: number): string =>
    lines(depth, (i) => (i === 0 ? "a0: &a0 []" : `a${i}: &a${i} [*a${i - 1}]`));
  const aliases = (count: number): string => `- &a 1\n${lines(count, () => "- *a")}`;
  const merges = (count: number): string => `%YAML 1.1\n---\n- &a {b: 1}\n${lines(count, () => "- {<<: *a}")}`;
  const longAliased = (count: number): string => `- &a ${"x".repeat(100_000)}\n${lines(count, () => "- *a")}`;

  const DEPTH = MAX_YAML_DEPTH;
  const ROWS: [string, string, string, RegExp][] = [
    [
      "brackets",
      "[".repeat(DEPTH) + "]".repeat(DEPTH),
      "[".repeat(DEPTH + 1) + "]".repeat(DEPTH + 1),
      /it is nested too deep/,
    ],
    [
      "single pairs",
      `${"[a: ".repeat(15)}${"]".repeat(15)}`,
      `${"[a: ".repeat(16)}${"]".repeat(16)}`,
      /it is nested too deep/,
    ],
    [
      "dashes",
      `${"- ".repeat(DEPTH - 1)}a`,
      `${"- ".repeat(DEPTH + 1)}a`,
      /line 1: it is nested too deep: the limit is/,
    ],
    ["aliases in aliases", aliasesInAliases(DEPTH - 1), aliasesInAliases(DEPTH), /it is nested too deep/],
    ["aliases", aliases(9_999), aliases(10_000), /Excessive alias count/],
    ["merge keys", merges(1_000), merges(1_001), /line 1004: it has too many merge keys: the limit is 1000/],
    ["a long text aliased", longAliased(30), longAliased(31), /too many bytes once its aliases are expanded/],
  ];
  for (const [what, within, beyond, effect] of ROWS)
    it(`${what}, at the limit -> read; one more -> refused`, () => {
      read(within);
      expect(() => read(beyond)).to.throw(InvalidArgumentError, effect);
    });

  const VALUES: [string, string, unknown][] = [
    ["keys that are no texts", "1: a\n~: b\ntrue: c\n[x]: d\n", { "1": "a", "": "b", true: "c", "[ x ]": "d" }],
    ["a key that objects have", "__proto__: {a: 1}\n", JSON.parse('{"__proto__": {"a": 1}}')],
    ["an anchor that comes again", "- &a 1\n- *a\n- &a 2\n- *a\n", [1, 1, 2, 2]],
    ["an alias as a key", "- &a x\n- {*a : 1}\n", ["x", { x: 1 }]],
    ["<< where it means nothing", "a: &a {b: 1}\nc: {<<: *a}\n", { a: { b: 1 }, c: { "<<": { b: 1 } } }],
    [
      "<< in YAML 1.1, own keys first",
      "%YAML 1.1\n---\n- &a {b: 1, c: 1}\n- {<<: [*a, {c: 2, d: 2}], b: 3}\n",
      [
        { b: 1, c: 1 },
        { b: 3, c: 1, d: 2 },
      ],
    ],
    ["tags of sets and ordered maps", "- !!set {a, b}\n- !!omap [a: 1]\n", [{ a: null, b: null }, [{ a: 1 }]]],
    ["comments alone", "# nothing\n", null],
  ];
  for (const [what, text, value] of VALUES)
    it(`${what} -> its value`, () => {
      expect(read(text)).to.deep.equal(value);
    });

  const REFUSED: [string, string, RegExp][] = [
    ["a key twice", "a: 1\nb: 1\na: 2\n", /not valid YAML: line 3: the keys of a mapping must be unique/],
    ["an alias of nothing", "a: *b\n", /line 1: an alias has no anchor/],
    ["an alias of what comes later", "- *a\n- &a 1\n", /line 1: an alias has no anchor/],
    ["an alias of what it is part of", "a: &a [*a]\n", /line 1: an alias refers to a value that contains the alias/],
    ["two documents", "a: 1\n---\nb: 1\n", /line 2: it holds more than one document/],
    ["<< of a text", "%YAML 1.1\n---\n<<: x\n", /not valid YAML: Merge sources must be maps/],
  ];
  for (const [what, text, effect] of REFUSED)
    it(`${what} -> refused`, () => {
      expect(() => read(text)).to.throw(InvalidArgumentError, effect);
    });

  const ROUNDED = ["9007199254740993", "-9007199254740993", "0x20000000000001", "123456789012345678901"];
  for (const text of ROUNDED)
    it(`${text} -> refused by line, because it would lose digits; as a text, or stored -> read`, () => {
      const config = `azs:\n- name: z1\n  cloud_properties: {account: ${text}}\n`;
      const limits = { ...storedLimits("cloud config"), stored: false };
      expect(() => parseCloudConfig(config, limits)).to.throw(
        "line 3: a whole number beyond 2^53 would lose digits: put it in quotes, as a text",
      );
      const quoted = parseCloudConfig(config.replace(text, `"${text}"`), limits);
      expect(quoted.azs[0]?.cloudProperties).to.deep.equal({ account: text });
      expect(parseCloudConfig(config, storedLimits("cloud config")).azs).to.have.lengthOf(1);
    });
  it("the largest integer that keeps its digits, and a float -> read", () => {
    const limits = { ...storedLimits("text"), stored: false };
    expect(readYaml("[9007199254740991, 1e300, 2.5]", limits)).to.deep.equal([9007199254740991, 1e300, 2.5]);
  });

  it("a stored text -> read beyond the limits of new texts", () => {
    const value = readYaml(longAliased(50), storedLimits("text"));
    expect(value).to.have.length(51);
  });

  it("a stored text, nested beyond any stack -> an error, no crash", () => {
    expect(() => readYaml(`${"[".repeat(200_000)}${"]".repeat(200_000)}`, storedLimits("text"))).to.throw(
      InvalidArgumentError,
      /nested too deep|call stack/,
    );
  });
});

describe("values nested up to the limit", () => {
  const depth = MAX_YAML_DEPTH;
  const mappings = (depth: number): string => `${"{a: ".repeat(depth)}1${"}".repeat(depth)}`;

  it("tags, the deepest values in the env of a VM -> the dispatcher can decode them", () => {
    const { tags } = parseManifest(`name: web\ntags: ${mappings(depth - 1)}\n`, MANIFEST);
    const identity = { director: "d", deployment: "web", group: "g", tags };
    const env = vmEnv({}, identity, undefined);
    const bytes = CreateVmRequest.encode(CreateVmRequest.fromPartial({ env })).finish();
    expect(CreateVmRequest.decode(bytes).env).to.deep.equal(env);
  });

  it("properties of CPIs -> the dispatcher can decode them", () => {
    const text = `cpis: [{name: a, type: b, properties: ${mappings(depth - 3)}}]\n`;
    const cpis = parseCpiConfig(text, CLOUD);
    const request = SetCpiConfigRequest.fromPartial({ cpis: cpis.map(({ properties }) => ({ properties })) });
    const decoded = SetCpiConfigRequest.decode(SetCpiConfigRequest.encode(request).finish());
    expect(decoded.cpis[0]?.properties).to.deep.equal(cpis[0]?.properties);
  });
});

describe("unknown top-level keys", () => {
  it("in a manifest or cloud config -> refused by name and line", () => {
    expect(() => parseManifest("name: web\ninstance_group: []\nmeta: 1\n", MANIFEST)).to.throw(
      InvalidArgumentError,
      /manifest has unknown top-level keys: "instance_group" in line 2, "meta" in line 3; known are name, /,
    );
    expect(() => parseCloudConfig("azs: []\nvm_type: []\n", CLOUD)).to.throw(
      InvalidArgumentError,
      /"vm_type" in line 2; known are azs/,
    );
    expect(() => parseCpiConfig("cpis: []\nextra: 1\n", CLOUD)).to.throw(
      InvalidArgumentError,
      /"extra" in line 2; known are cpis/,
    );
  });

  it("that begin with x- hold anchors -> ignored in each kind of text", () => {
    const anchors = "x-networks: &own [{name: a}]\n";
    const groups = "instance_groups: [{name: db, instances: 1, networks: *own}]\n";
    expect(parseManifest(`name: web\n${anchors}${groups}`, MANIFEST).groups[0]?.networks).to.have.lengthOf(1);
    expect(parseCloudConfig("x-azs: &azs [{name: z1}]\nazs: *azs\n", CLOUD).azs).to.have.lengthOf(1);
    expect(parseCpiConfig("x-cpi: &cpi {name: a, type: b}\ncpis: [*cpi]\n", CLOUD)).to.have.lengthOf(1);
    expect(parseResurrectionConfig("x-rule: &rule {enabled: true}\nrules: [*rule]\n", CLOUD)).to.have.lengthOf(1);
  });

  it("that begin with x- and hold secrets -> not in a redacted diff, which shows that a use has changed", () => {
    const lines = (key: string) => {
      const content = `x-p: &p {api_key: ${key}}\ncpis: [{name: a, type: b, properties: *p}]\n`;
      return comparableLines(content, { redact: true }).join("\n");
    };
    expect(lines("hunter2")).not.to.contain("hunter2").and.not.to.equal(lines("hunter3"));
  });

  it("very many of them -> the first ones are named", async () => {
    const keys = Array.from({ length: 20 }, (_, index) => `k${index}: 1\n`).join("");
    const error = await rejection(
      () => parseCloudConfig(keys, CLOUD),
      InvalidArgumentError,
      /"k9" in line 10 and 10 more/,
    );
    expect(error.message).to.not.contain("k10");
  });

  it("BOSH's own keys -> ignored", () => {
    const manifest =
      "name: web\ndirector_uuid: x\nreleases: []\nstemcells: []\nupdate: {}\ninstance_groups: []\ncompilation: {}\n" +
      "properties: {}\nvariables: []\nfeatures: {}\ntags: {}\naddons: []\n";
    expect(parseManifest(manifest, MANIFEST).name).to.equal("web");
    expect(parseCloudConfig("azs: []\ncompilation: {workers: 1}\n", CLOUD).azs).to.deep.equal([]);
  });

  it("in a stored text -> ignored", () => {
    const config = parseCloudConfig("azs: [{name: z1}]\nmeta: 1\n", storedLimits("cloud config"));
    expect(config.azs).to.have.length(1);
  });
});
