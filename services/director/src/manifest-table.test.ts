import { join } from "node:path";
import { messageOf } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { stemcellFile, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { directorConfig } from "./config.js";
import { newInstance } from "./model/instance.js";
import { checkManifest, place } from "./model/manifest-check.js";
import { type DirectorTablet, storedSchema } from "./stored-schema.js";
import { TestDirector } from "./testing/test-director.js";
import { parseCloudConfig } from "./yaml/cloud-config.js";
import { type Manifest, parseManifest } from "./yaml/manifest.js";

const { yaml } = directorConfig.shape.limits.parse({});
const LIMITS = { sizeBytes: 100_000, yaml };

const CLOUD = `
azs: [{name: z1}, {name: z2}, {name: z3}]
networks:
- name: net
  subnets:
  - {range: 10.0.1.0/24, gateway: 10.0.1.1, az: z1, static: [10.0.1.10-10.0.1.20], reserved: [10.0.1.30]}
  - {range: 10.0.2.0/24, gateway: 10.0.2.1, az: z2, static: [10.0.2.10-10.0.2.20]}
  - {range: 10.0.3.0/24, gateway: 10.0.3.1, azs: [z1, z2], static: [10.0.3.10-10.0.3.20]}
- {name: other, subnets: [{range: 10.1.0.0/24, az: z2, static: [10.1.0.10]}]}
- name: six
  subnets: [{range: "2001:db8::/64", gateway: "2001:db8::1", az: z1, static: ["2001:db8::10-2001:db8::20"], dns: ["2001:db8::53"]}]
- {name: plain, subnets: [{range: 10.2.0.0/24, static: [10.2.0.9]}]}
- {name: dyn, type: dynamic}
- {name: vip, type: vip}
`;

/** A manifest of one group, and more. */
const web = (group: string, more = "", azs = "azs: [z1, z2]"): string =>
  `name: web\n${more}\ninstance_groups:\n- name: db\n  ${[azs, ...group.split("\n")].filter(Boolean).join("\n  ")}\n`;

describe("what a manifest may say, row by row", () => {
  let tablet: DirectorTablet;

  before(async () => {
    const storage = openStorage(join(temporaryFolder(), "state"), "director");
    tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
    await tablet.transact((tx) => {
      const theirs = newInstance({ instanceId: "theirs", deployment: "ci", group: "a", index: 0, az: "z1" });
      tx.instances.put({ ...theirs, ips: { net: "10.0.1.15" } });
      const ours = newInstance({ instanceId: "ours", deployment: "here", group: "db", index: 0, az: "z1" });
      tx.instances.put({ ...ours, ips: { net: "10.0.1.11" } });
      const nowhere = newInstance({ instanceId: "nowhere", deployment: "plain", group: "db", index: 0, az: "" });
      tx.instances.put(nowhere);
    });
  });
  after(() => tablet?.[Symbol.asyncDispose]());

  /** As a deploy begins: read, then checked. */
  async function accept(
    text: string,
    { cloud = CLOUD, ignoreJobs = false } = {},
  ): Promise<{ manifest: Manifest; placed: string }> {
    const config = parseCloudConfig(cloud, { ...LIMITS, what: "cloud config" });
    const manifest = parseManifest(text, { ...LIMITS, what: "manifest", instances: 100, ignoreJobs });
    return tablet.read((tables) => {
      const configs = { cloudConfigs: { current: () => config }, cpiConfigs: { current: () => ({ cpis: undefined }) } };
      checkManifest(configs, tables, manifest);
      const { added, migrated } = place(tables, manifest.name, manifest.groups, config, () => "");
      return {
        manifest,
        placed: [...migrated, ...added].map(({ group, index, az }) => `${group}/${index}@${az}`).join(" "),
      };
    });
  }
  const refusal = async (text: string): Promise<string> => {
    try {
      await accept(text);
    } catch (error) {
      return messageOf(error);
    }
    return "accepted";
  };

  const PLACED: [string, string, string][] = [
    ["no static ips", web("instances: 3"), "db/0@z1 db/1@z2 db/2@z1"],
    ["static ips", web("instances: 2\nnetworks: [{name: net, static_ips: [10.0.2.10, 10.0.1.10]}]"), "db/0@z2 db/1@z1"],
    [
      "a range of static ips of one az",
      web("instances: 3\nnetworks: [{name: net, static_ips: [10.0.2.10-10.0.2.12]}]"),
      "db/0@z2 db/1@z2 db/2@z2",
    ],
    [
      "static ips of a subnet of several azs",
      web("instances: 3\nnetworks: [{name: net, static_ips: [10.0.3.10-10.0.3.12]}]"),
      "db/0@z1 db/1@z2 db/2@z1",
    ],
    [
      "static ips in two networks, one of them of a single az",
      web(
        "instances: 1\nnetworks: [{name: net, static_ips: [10.0.3.10], default: [dns, gateway]}, {name: other, static_ips: [10.1.0.10]}]",
      ),
      "db/0@z2",
    ],
    [
      "a vip beside a network",
      web("instances: 1\nnetworks: [{name: net, default: [dns, gateway]}, {name: vip, static_ips: [1.2.3.4]}]"),
      "db/0@z1",
    ],
    [
      "static ips of IPv6, however they are written",
      web('instances: 2\nnetworks: [{name: six, static_ips: ["2001:DB8:0::11", "2001:db8::10"]}]', "", "azs: [z2, z1]"),
      "db/0@z1 db/1@z1",
    ],
    [
      "IPv4 and IPv6 on one network interface",
      web('instances: 1\nnetworks: [{name: net, nic_group: 1, default: [dns, gateway]}, {name: six, nic_group: "1"}]'),
      "db/0@z1",
    ],
    ["no azs, no networks", web("instances: 2", "", ""), "db/0@ db/1@"],
    [
      "no azs, networks without",
      web(
        "instances: 1\nnetworks: [{name: plain, static_ips: [10.2.0.9], default: [dns, gateway]}, {name: dyn}]",
        "",
        "",
      ),
      "db/0@",
    ],
    [
      "dns and gateway by two networks",
      web("instances: 1\nnetworks: [{name: net, default: [gateway]}, {name: dyn, default: [dns, addressable]}]"),
      "db/0@z1",
    ],
  ];
  for (const [cause, text, effect] of PLACED)
    it(`${cause} -> ${effect}`, async () => {
      expect((await accept(text)).placed).to.equal(effect);
    });

  const statically = (ips: string, more = ""): string =>
    web(`instances: ${ips.split(",").length}\nnetworks: [{name: net, static_ips: [${ips}]}]${more}`);
  const NETWORKS: [string, string, RegExp][] = [
    [
      "two networks, no default",
      web("instances: 1\nnetworks:\n- name: net\n- name: dyn"),
      /line 7: instance_groups\.0\.networks: one of them must be the default for dns; .*: one of them must be the default for gateway$/,
    ],
    [
      "two networks, no gateway",
      web("instances: 1\nnetworks: [{name: net, default: [dns]}, {name: dyn}]"),
      /networks: one of them must be the default for gateway$/,
    ],
    [
      "two defaults for dns",
      web("instances: 1\nnetworks: [{name: net, default: [dns, gateway]}, {name: dyn, default: [dns]}]"),
      /line 7: instance_groups\.0\.networks: only one can be the default for dns: `net`, `dyn` are$/,
    ],
    [
      "two addressable",
      web(
        "instances: 1\nnetworks: [{name: net, default: [dns, gateway, addressable]}, {name: dyn, default: [addressable]}]",
      ),
      /only one can be the default for addressable/,
    ],
    [
      "no azs while a subnet names one",
      web("instances: 1\nnetworks: [{name: net}]", "", ""),
      /instance group `db`, network `net`: its subnets are in azs, such as `z1`: name the group's azs, too/,
    ],
    [
      "empty azs",
      web("instances: 1", "", "azs: []"),
      /line 5: instance_groups\.0\.azs: give at least one az, or leave/,
    ],
    [
      "a nic_group that is no number",
      web("instances: 1\nnetworks: [{name: net, nic_group: a}]"),
      /line 7: instance_groups\.0\.networks\.0\.nic_group: give a whole number/,
    ],
    ["an unknown default", web("instances: 1\nnetworks: [{name: net, default: [x]}]"), /networks\.0\.default\.0/],
    [
      "a vip as default",
      web("instances: 1\nnetworks: [{name: net}, {name: vip, static_ips: [1.2.3.4], default: [dns, gateway]}]"),
      /instance group `db`, network `vip`: a vip network cannot be the default for anything/,
    ],
    ["a vip without addresses", web("instances: 1\nnetworks: [{name: vip}]"), /`vip`: a vip network needs static_ips/],
    [
      "static ips of a dynamic network",
      web("instances: 1\nnetworks: [{name: dyn, static_ips: [10.0.1.10]}]"),
      /`dyn`: a dynamic network has no static_ips/,
    ],
    [
      "fewer static ips than instances",
      web("instances: 2\nnetworks: [{name: net, static_ips: [10.0.1.10]}]"),
      /line 7: instance_groups\.0\.networks\.0\.static_ips: has 1 addresses for 2 instances: give one for each/,
    ],
    [
      "more static ips than instances",
      web("instances: 1\nnetworks: [{name: net, static_ips: [10.0.1.10-10.0.1.11]}]"),
      /has 2 addresses for 1 instances/,
    ],
    ["a static ip twice", statically("10.0.1.10, 10.0.1.10"), /static_ips: has an address twice/],
    [
      "a static ip of two groups",
      `${statically("10.0.1.10")}- {name: b, instances: 1, azs: [z1], networks: [{name: net, static_ips: [10.0.1.10]}]}\n`,
      /instance group `b`, network `net`: static ip 10\.0\.1\.10 is instance group `db`'s, too/,
    ],
    ["one in no subnet", statically("10.9.0.1"), /`db`, network `net`: static ip 10\.9\.0\.1 is in no subnet/],
    ["one not in static", statically("10.0.1.21"), /10\.0\.1\.21 is not in `static` of its subnet: add it there/],
    ["the gateway", statically("10.0.1.1"), /10\.0\.1\.1 is the subnet's gateway/],
    ["a reserved one", statically("10.0.1.30"), /10\.0\.1\.30 is reserved in its subnet/],
    ["the network address", statically("10.0.1.0"), /10\.0\.1\.0 is the subnet's own address/],
    ["the last address", statically("10.0.1.255"), /10\.0\.1\.255 is the subnet's own address/],
    [
      "another deployment's",
      statically("10.0.1.15"),
      /address 10\.0\.1\.15 is another instance's already, of deployment `ci`/,
    ],
    [
      "one of an az that the group has not",
      web("instances: 1\nnetworks: [{name: net, static_ips: [10.0.1.10]}]", "", "azs: [z2]"),
      /static ip 10\.0\.1\.10, which is instance 0's, is in AZ `z1`: the group, or another of its networks/,
    ],
    [
      "two static ips of one instance in different azs",
      web(
        "instances: 1\nnetworks: [{name: net, static_ips: [10.0.1.10], default: [dns, gateway]}, {name: other, static_ips: [10.1.0.10]}]",
      ),
      /network `other`: static ip 10\.1\.0\.10, which is instance 0's, is in AZ `z2`/,
    ],
    [
      "an instance that is there, its address in another az",
      statically("10.0.2.11").replace("name: web", "name: here"),
      /db\/ours has index 0 and is in AZ `z1`, but its static_ips are in AZ `z2`: addresses go by index/,
    ],
  ];
  for (const [cause, text, effect] of NETWORKS)
    it(`${cause} -> refused, with the place`, async () => {
      expect(await refusal(text)).to.match(effect);
    });

  const REFUSED_WISHES: [string, string, RegExp][] = [
    [
      "releases",
      web("instances: 1", "releases: [{name: r, version: 1}]"),
      /line 2: releases: diskmesh runs no jobs: .*ignoreJobs/,
    ],
    ["addons", web("instances: 1", "addons: [{name: a}]"), /line 2: addons: diskmesh runs no jobs/],
    [
      "jobs",
      web("instances: 1\njobs: [{name: j, release: r}]"),
      /line 7: instance_groups\.0\.jobs: diskmesh runs no jobs/,
    ],
    [
      "properties of jobs",
      web("instances: 1\nproperties: {a: 1}"),
      /instance_groups\.0\.properties: diskmesh runs no jobs/,
    ],
    ["properties of all jobs", web("instances: 1", "properties: {a: 1}"), /line 2: properties: diskmesh runs no jobs/],
    [
      "an errand",
      web("instances: 1\nlifecycle: errand"),
      /line 7: instance_groups\.0\.lifecycle: is not supported: .*errands/,
    ],
    ["variables", web("instances: 1", "variables: [{name: v, type: password}]"), /line 2: variables: is not supported/],
    ["features", web("instances: 1", "features: {use_dns_addresses: true}"), /line 2: features: is not supported/],
    ["compilation", web("instances: 1", "compilation: {workers: 1}"), /line 2: compilation: is not supported/],
    [
      "a variable",
      web("instances: 1\nenv: {a: {b: [x, hush((name))]}}"),
      /^(?!.*hush).*line 7: instance_groups\.0\.env\.a\.b\.1: holds a \(\(variable\)\)/,
    ],
    ["a variable in a key", web("instances: 1", "tags: {((a/b)): c}"), /line 2: tags\."\(\(a\/b\)\)": holds a/],
    ["a variable as a name", web("instances: 1").replace("name: web", "name: ((name))"), /line 1: name/],
    [
      "a variable as a stemcell's version",
      web("instances: 1", "stemcells: [{alias: a, os: b, version: ((v))}]"),
      /line 2: stemcells\.0\.version/,
    ],
    ["an unknown key", web("instances: 1", "instance_group: []"), /unknown top-level keys: "instance_group" in line 2/],
    [
      "an unknown key of a group",
      web("instances: 1\ninstance: 2"),
      /line 7: instance_groups\.0\.instance: is unknown: known are name, instances,/,
    ],
    ["resource_pool", web("instances: 1\nresource_pool: a"), /line 7: instance_groups\.0\.resource_pool: is unknown/],
    ["vm_resources", web("instances: 1\nvm_resources: {cpu: 1}"), /vm_resources: is not supported: give vm_type/],
    ["persistent_disks", web("instances: 1\npersistent_disks: []"), /persistent_disks: is not supported/],
    [
      "an unknown key of a network",
      web("instances: 1\nnetworks: [{name: net, static_ip: [10.0.1.10]}]"),
      /networks\.0\.static_ip: is unknown: known are name, static_ips, default, nic_group/,
    ],
    [
      "an unknown key of a stemcell",
      web("instances: 1", "stemcells: [{alias: a, os: b, version: 1, x: z}]"),
      /stemcells\.0\.x: is unknown/,
    ],
    [
      "an unknown key of update",
      web("instances: 1", "update: {canary: 1}"),
      /line 2: update\.canary: is unknown: known are canaries,/,
    ],
    [
      "canaries that are none",
      web("instances: 1", "update: {canaries: banana}"),
      /line 2: update\.canaries: give a whole number, or a share/,
    ],
    ["canaries below none", web("instances: 1", "update: {canaries: -1}"), /update\.canaries: give a whole number/],
    [
      "half in flight",
      web("instances: 1\nupdate: {max_in_flight: 0.5}"),
      /line 7: instance_groups\.0\.update\.max_in_flight: give a whole number/,
    ],
    [
      "no watch time",
      web("instances: 1", "update: {canary_watch_time: soon}"),
      /update\.canary_watch_time: give milliseconds/,
    ],
    [
      "a watch time backwards",
      web("instances: 1", "update: {update_watch_time: 2000-1000}"),
      /update_watch_time: the least watch time is above the most/,
    ],
    ["serial that is none", web("instances: 1", "update: {serial: 2}"), /update\.serial: give true or false/],
    ["update that is none", web("instances: 1", "update: 1"), /line 2: update: give a mapping/],
    [
      "vm_strategy",
      web("instances: 1", "update: {vm_strategy: create-swap-delete}"),
      /update\.vm_strategy: is not supported: leave it out, or give `delete-create`/,
    ],
    [
      "azs at once",
      web("instances: 1", "update: {initial_deploy_az_update_strategy: parallel}"),
      /is not supported: .*`serial`/,
    ],
    [
      "two names of a disk's type",
      web("instances: 1\npersistent_disk_pool: a\npersistent_disk_type: a"),
      /line 7: instance_groups\.0\.persistent_disk_pool: is the old name of persistent_disk_type/,
    ],
    [
      "an unknown disk type by its old name",
      web("instances: 1\npersistent_disk_pool: a"),
      /could not find disk pool by name `a`/,
    ],
    [
      "migrated_from that is none",
      web("instances: 1\nmigrated_from: old"),
      /line 7: instance_groups\.0\.migrated_from: give a list/,
    ],
    [
      "migrated from a group that stays",
      `${web("instances: 1\nmigrated_from: [{name: b}]")}- {name: b, instances: 1, azs: [z1]}\n`,
      /migrated_from\.0: instance group `b` is in the manifest still/,
    ],
    [
      "migrated to two groups",
      `${web("instances: 1\nmigrated_from: [{name: b}]")}- {name: c, instances: 1, azs: [z1], migrated_from: [{name: b}]}\n`,
      /line 8: instance_groups\.1\.migrated_from\.0: `b` has migrated to `db` already/,
    ],
    [
      "migrated from an az that the group has not",
      web("instances: 1\nmigrated_from: [{name: b, az: z3}]"),
      /migrated_from\.0\.az: is no az of the group/,
    ],
    [
      "migrated from another az than it is in",
      web("instances: 1\nmigrated_from: [{name: db, az: z2}]")
        .replace("name: web", "name: here")
        .replace("name: db\n", "name: new\n"),
      /db\/ours cannot migrate to instance group `new`: it is in AZ `z1`, not in `z2`/,
    ],
    [
      "migrated from no az to some",
      web("instances: 1\nmigrated_from: [{name: db}]")
        .replace("name: web", "name: plain")
        .replace("name: db\n", "name: new\n"),
      /it is in no AZ, so say in migrated_from which `az`/,
    ],
    [
      "yes",
      web("instances: 1\nenv: {a: yes}"),
      /line 7: a value is true or false in YAML 1\.1, and a text in YAML 1\.2/,
    ],
    ["off as a key", web("instances: 1\nenv: {off: 1}"), /line 7: a value is true or false in YAML 1\.1/],
    ["an octal number", web("instances: 1\nenv: {mode: 0755}"), /line 7: a value is octal in YAML 1\.1, and decimal/],
    ["a number with _", web("instances: 1\npersistent_disk: 1_000"), /line 7: a value is a number in YAML 1\.1 only/],
    ["a binary number", web("instances: 1\nenv: {a: 0b11}"), /line 7: a value is a number in one version of YAML only/],
    [
      "<<",
      web("instances: 1\nenv: {a: &a {b: 1}, c: {<<: *a}}"),
      /line 7: a value `<<` merges in YAML 1\.1 only: begin the manifest with/,
    ],
    [
      "a number to base 60",
      `%YAML 1.1\n---\n${web("instances: 1\nenv: {a: 22:30}")}`,
      /line 9: a value is a number to base 60/,
    ],
  ];
  for (const [cause, text, effect] of REFUSED_WISHES)
    it(`${cause} -> refused, with the place`, async () => {
      expect(await refusal(text)).to.match(effect);
    });

  const TAKEN: [string, string][] = [
    [
      "what the CLI sends for nothing",
      web(
        "instances: 1\njobs: []\nproperties: {}\nnetworks: []",
        "releases: []\naddons: []\nvariables: []\nfeatures: {}\ndirector_uuid: x",
      ),
    ],
    [
      "update, in all its forms",
      web(
        "instances: 1\nlifecycle: service\nupdate: {canaries: 1, max_in_flight: 20%, serial: false}",
        'update: {canaries: "2", max_in_flight: 10, canary_watch_time: 1000-60000, update_watch_time: 30000, serial: true, vm_strategy: delete-create, initial_deploy_az_update_strategy: serial}',
      ),
    ],
    ["quoted, what has two meanings", web("instances: 1\nenv: {a: \"yes\", b: '0755', c: !!str on, d: 0, e: 07a}")],
    [
      "half a variable",
      web("instances: 1\nenv: {a: ((b, c: d)), e: (f)}").replace("((b,", '"((b",').replace("d))", '"d))"'),
    ],
  ];
  for (const [cause, text] of TAKEN)
    it(`${cause} -> taken`, async () => {
      expect((await accept(text)).manifest.warnings).to.deep.equal([]);
    });

  it("releases, jobs and addons with ignoreJobs -> taken with a warning, whatever they hold", async () => {
    const text = web(
      "instances: 1\njobs: [{name: j, release: r, properties: {a: ((b)), c: yes}}]",
      "releases: [{name: r, version: ((v))}]\naddons: [{name: x}]",
    );
    const { manifest, placed } = await accept(text, { ignoreJobs: true });
    expect(placed).to.equal("db/0@z1");
    expect(manifest.warnings).to.deep.equal([
      "its releases, addons, jobs are left out: nothing of them runs on the VMs",
    ]);
    expect(
      parseManifest(text, { ...LIMITS, what: "manifest", instances: 1, ignoreJobs: false, stored: true }).warnings,
    ).to.have.length(1);
    const variable = text.replace("instances: 1", "instances: 1\n  env: {a: ((b))}");
    await rejection(accept(variable, { ignoreJobs: true }), Error, /env\.a: holds a/);
    const errand = text.replace("instances: 1", "instances: 1\n  lifecycle: errand");
    await rejection(accept(errand, { ignoreJobs: true }), Error, /no errands/);
  });

  it("YAML 1.1 by its directive -> merged, and read as by the CLI", async () => {
    const { manifest } = await accept(
      `%YAML 1.1\n---\n${web("instances: 1\nenv: {a: &a {b: yes}, c: {<<: *a, d: 0755}}")}`,
    );
    expect(manifest.groups[0]?.env).to.deep.equal({ a: { b: true }, c: { b: true, d: 493 } });
  });

  it("persistent_disk_pool -> the disk type", async () => {
    const cloud = `${CLOUD}disk_types: [{name: fast, disk_size: 64}]\n`;
    const { manifest } = await accept(web("instances: 1\npersistent_disk_pool: fast"), { cloud });
    expect(manifest.groups[0]?.persistentDisk).to.deep.equal({ sizeMib: 0, type: "fast" });
  });

  it("migrated_from -> the instance is the new group's, in its az; one of no az in the one that is named", async () => {
    const to = (deployment: string, from: string) =>
      web(`instances: 2\nmigrated_from: [${from}]`)
        .replace("name: web", `name: ${deployment}`)
        .replace("name: db\n", "name: new\n");
    expect((await accept(to("here", "{name: db}"))).placed).to.equal("new/0@z1 new/1@z2");
    expect((await accept(to("plain", "{name: db, az: z2}"))).placed).to.equal("new/0@z2 new/1@z1");
    expect((await accept(to("plain", "{name: other}, {name: none}"))).placed).to.equal("new/0@z1 new/1@z2");
  });

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
      /line 2: networks\.0: two of its subnets have addresses in common/,
    ],
  ];
  for (const [cause, cloud, effect] of CLOUDS)
    it(`cloud config: ${cause} -> refused, with the place; stored -> as before`, () => {
      expect(() => parseCloudConfig(cloud, { ...LIMITS, what: "cloud config" })).to.throw(effect);
      expect(parseCloudConfig(cloud, { ...LIMITS, what: "cloud config", stored: true }).networks).to.have.length(1);
    });

  it("cloud config: prefix of one address, as BOSH's default -> taken", () => {
    const cloud = subnets("{range: 10.0.0.0/24, prefix: 32}", '{range: "2001:db8::/64", prefix: "128"}');
    expect(parseCloudConfig(cloud, { ...LIMITS, what: "cloud config" }).networks).to.have.length(1);
  });

  it("everything refused above, but stored -> read as before", () => {
    const neverTaken = [
      "an unknown default",
      "a number with _",
      "empty azs",
      "a variable as a name",
      "a variable as a stemcell's version",
      "vm_resources",
      "persistent_disks",
    ];
    for (const [cause, text] of [...NETWORKS, ...REFUSED_WISHES]) {
      if (neverTaken.includes(cause) || cause.includes("of YAML")) continue;
      expect(
        parseManifest(text, { ...LIMITS, what: "manifest", instances: 100, ignoreJobs: false, stored: true }).groups,
      ).to.not.be.empty;
    }
  });
});

describe("what a group must say of its VMs", () => {
  const NETWORKS = "networks: [{name: any}]";
  const ALL = `stemcell: s, vm_type: small, ${NETWORKS}`;
  const ROWS: [string, RegExp | undefined][] = [
    [ALL, undefined],
    [`${ALL}, vm_extensions: [more]`, undefined],
    [`vm_type: small, ${NETWORKS}`, /^instance group `db` names no stemcell: the default CPI makes VMs of them/],
    [`stemcell: s, ${NETWORKS}`, /names no vm_type:/],
    [`stemcell: s, vm_extensions: [more], ${NETWORKS}`, /names no vm_type:/],
    ["stemcell: s, vm_type: small", /names no networks:/],
    ["instances: 0", /names no stemcell, vm_type, networks:/],
  ];
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start();
    const content = `
azs: [{name: z1}]
vm_types: [{name: small}]
vm_extensions: [{name: more}]
networks: [{name: any, type: dynamic}]
`;
    await director.configs.updateConfig({ type: "cloud", content });
    await director.upload(stemcellFile({ name: "s", version: "1" }));
  });
  after(() => director?.stop());

  const deploy = async (group: string) => {
    const instances = group.includes("instances:") ? "" : "instances: 1, ";
    const manifest = `name: web\nstemcells: [{alias: s, name: s, version: latest}]\ninstance_groups: [{name: db, azs: [z1], ${instances}${group}}]\n`;
    return (await director.deployments.deploy({ manifest, wait: true })).task;
  };

  for (const [group, refusal] of ROWS)
    it(`${group} -> ${refusal === undefined ? "taken" : "refused"} where VMs are made; on a fleet taken`, async () => {
      director.cpi.needsVmSpec = true;
      const task = await deploy(group);
      if (refusal === undefined) expect(task?.result).to.equal("/deployments/web");
      else {
        expect(task?.result).to.match(refusal);
        const { deployments } = await director.deployments.listDeployments({});
        expect(deployments, "nothing of it is recorded").to.deep.equal([]);
      }
      director.cpi.needsVmSpec = false;
      expect((await deploy(group))?.result).to.equal("/deployments/web");
      await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    });
});
