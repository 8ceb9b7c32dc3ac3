import { expect } from "chai";
import { LIMITS, ManifestCheck, web } from "../testing/manifest-check.js";
import { parseManifest } from "../yaml/manifest.js";

describe("refused manifests, row by row", () => {
  let check: ManifestCheck;

  before(async () => {
    check = await ManifestCheck.open();
  });
  after(() => check?.close());

  const statically = (ips: string, more = ""): string =>
    web(`instances: ${ips.split(",").length}\nnetworks: [{name: net, static_ips: [${ips}]}]${more}`);
  const NETWORKS: [string, string, RegExp][] = [
    [
      "two networks, no default",
      web("instances: 1\nnetworks:\n- name: net\n- name: dyn"),
      /line 7: instance_groups\.0\.networks: one network must be the default for dns; .*: one network must be the default for gateway$/,
    ],
    [
      "two networks, no gateway",
      web("instances: 1\nnetworks: [{name: net, default: [dns]}, {name: dyn}]"),
      /networks: one network must be the default for gateway$/,
    ],
    [
      "two defaults for dns",
      web("instances: 1\nnetworks: [{name: net, default: [dns, gateway]}, {name: dyn, default: [dns]}]"),
      /line 7: instance_groups\.0\.networks: only one network can be the default for dns, but `net`, `dyn` are$/,
    ],
    [
      "two addressable",
      web(
        "instances: 1\nnetworks: [{name: net, default: [dns, gateway, addressable]}, {name: dyn, default: [addressable]}]",
      ),
      /only one network can be the default for addressable/,
    ],
    [
      "no azs, but a subnet with an az",
      web("instances: 1\nnetworks: [{name: net}]", "", ""),
      /instance group `db`, network `net`: its subnets are in azs, such as `z1`: give the instance group azs, too/,
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
      /line 7: instance_groups\.0\.networks\.0\.static_ips: has 1 addresses for 2 instances: give each instance an address/,
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
      /instance group `b`, network `net`: static ip 10\.0\.1\.10 also belongs to instance group `db`/,
    ],
    ["a static ip in no subnet", statically("10.9.0.1"), /`db`, network `net`: static ip 10\.9\.0\.1 is in no subnet/],
    [
      "a static ip outside of static",
      statically("10.0.1.21"),
      /10\.0\.1\.21 is not in `static` of its subnet: add it there/,
    ],
    ["the gateway", statically("10.0.1.1"), /10\.0\.1\.1 is the subnet's gateway/],
    ["a reserved static ip", statically("10.0.1.30"), /10\.0\.1\.30 is reserved in its subnet/],
    ["the network address", statically("10.0.1.0"), /10\.0\.1\.0 is the subnet's own address/],
    ["the last address", statically("10.0.1.255"), /10\.0\.1\.255 is the subnet's own address/],
    [
      "another deployment's",
      statically("10.0.1.15"),
      /address 10\.0\.1\.15 already belongs to an instance of deployment `ci`/,
    ],
    [
      "a static ip of an az that the group lacks",
      web("instances: 1\nnetworks: [{name: net, static_ips: [10.0.1.10]}]", "", "azs: [z2]"),
      /static ip 10\.0\.1\.10 of instance 0 is in AZ `z1`, but the group or another of its networks/,
    ],
    [
      "two static ips of one instance in different azs",
      web(
        "instances: 1\nnetworks: [{name: net, static_ips: [10.0.1.10], default: [dns, gateway]}, {name: other, static_ips: [10.1.0.10]}]",
      ),
      /network `other`: static ip 10\.1\.0\.10 of instance 0 is in AZ `z2`/,
    ],
    [
      "an instance that is there, its address in another az",
      statically("10.0.2.11").replace("name: web", "name: here"),
      /db\/ours has index 0 and is in AZ `z1`, but its static_ips have an address in AZ `z2` for that index: list an address of AZ `z1`/,
    ],
  ];
  for (const [cause, text, effect] of NETWORKS)
    it(`${cause} -> refused, with the position`, async () => {
      expect(await check.refusal(text)).to.match(effect);
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
      /^(?!.*hush).*line 7: instance_groups\.0\.env\.a\.b\.1: contains a \(\(variable\)\)/,
    ],
    ["a variable in a key", web("instances: 1", "tags: {((a/b)): c}"), /line 2: tags\."\(\(a\/b\)\)": contains a/],
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
      /line 2: update\.canaries: give a whole number, or a percentage/,
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
      /update_watch_time: the minimum watch time is above the maximum/,
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
      /could not find disk type `a`/,
    ],
    [
      "migrated_from that is none",
      web("instances: 1\nmigrated_from: old"),
      /line 7: instance_groups\.0\.migrated_from: give a list/,
    ],
    [
      "migrated from a group that stays",
      `${web("instances: 1\nmigrated_from: [{name: b}]")}- {name: b, instances: 1, azs: [z1]}\n`,
      /migrated_from\.0: instance group `b` is still in the manifest/,
    ],
    [
      "migrated to two groups",
      `${web("instances: 1\nmigrated_from: [{name: b}]")}- {name: c, instances: 1, azs: [z1], migrated_from: [{name: b}]}\n`,
      /line 8: instance_groups\.1\.migrated_from\.0: `b` already migrates to `db`/,
    ],
    [
      "migrated from an az that the group has not",
      web("instances: 1\nmigrated_from: [{name: b, az: z3}]"),
      /migrated_from\.0\.az: is not an az of the group/,
    ],
    [
      "migrated from another az than it is in",
      web("instances: 1\nmigrated_from: [{name: db, az: z2}]")
        .replace("name: web", "name: here")
        .replace("name: db\n", "name: new\n"),
      /db\/ours cannot migrate to instance group `new`: the instance is in AZ `z1`, but migrated_from says `z2`/,
    ],
    [
      "migrated from no az to some",
      web("instances: 1\nmigrated_from: [{name: db}]")
        .replace("name: web", "name: plain")
        .replace("name: db\n", "name: new\n"),
      /the instance is in no AZ; set `az` in migrated_from/,
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
    it(`${cause} -> refused, with the position`, async () => {
      expect(await check.refusal(text)).to.match(effect);
    });
  it("a stored manifest with any of these faults -> read as before", () => {
    const neverTaken = [
      "an unknown default",
      "a number with _",
      "a variable as a name",
      "a variable as a stemcell's version",
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
