import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { CLOUD, LIMITS, ManifestCheck, web } from "../testing/manifest-check.js";
import { parseManifest } from "../yaml/manifest.js";

describe("accepted manifests, row by row", () => {
  let check: ManifestCheck;

  before(async () => {
    check = await ManifestCheck.open();
  });
  after(() => check?.close());

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
      expect((await check.accept(text)).placed).to.equal(effect);
    });

  const TAKEN: [string, string][] = [
    [
      "the empty values that the CLI sends",
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
    [
      "quoted values that would have two meanings",
      web("instances: 1\nenv: {a: \"yes\", b: '0755', c: !!str on, d: 0, e: 07a}"),
    ],
    [
      "half a variable",
      web("instances: 1\nenv: {a: ((b, c: d)), e: (f)}").replace("((b,", '"((b",').replace("d))", '"d))"'),
    ],
  ];
  for (const [cause, text] of TAKEN)
    it(`${cause} -> accepted`, async () => {
      expect((await check.accept(text)).manifest.warnings).to.deep.equal([]);
    });

  it("releases, jobs and addons with ignoreJobs -> accepted with a warning, whatever they contain", async () => {
    const text = web(
      "instances: 1\njobs: [{name: j, release: r, properties: {a: ((b)), c: yes}}]",
      "releases: [{name: r, version: ((v))}]\naddons: [{name: x}]",
    );
    const { manifest, placed } = await check.accept(text, { ignoreJobs: true });
    expect(placed).to.equal("db/0@z1");
    expect(manifest.warnings).to.deep.equal([
      "releases, addons, jobs of the manifest are ignored: none of them runs on the VMs",
    ]);
    expect(
      parseManifest(text, { ...LIMITS, what: "manifest", instances: 1, ignoreJobs: false, stored: true }).warnings,
    ).to.have.length(1);
    const variable = text.replace("instances: 1", "instances: 1\n  env: {a: ((b))}");
    await rejection(check.accept(variable, { ignoreJobs: true }), Error, /env\.a: contains a/);
    const errand = text.replace("instances: 1", "instances: 1\n  lifecycle: errand");
    await rejection(check.accept(errand, { ignoreJobs: true }), Error, /no errands/);
  });

  it("a YAML 1.1 directive -> merge keys apply, and values are read as by the CLI", async () => {
    const { manifest } = await check.accept(
      `%YAML 1.1\n---\n${web("instances: 1\nenv: {a: &a {b: yes}, c: {<<: *a, d: 0755}}")}`,
    );
    expect(manifest.groups[0]?.env).to.deep.equal({ a: { b: true }, c: { b: true, d: 493 } });
  });

  it("persistent_disk_pool -> names the disk type", async () => {
    const cloud = `${CLOUD}disk_types: [{name: fast, disk_size: 64}]\n`;
    const { manifest } = await check.accept(web("instances: 1\npersistent_disk_pool: fast"), { cloud });
    expect(manifest.groups[0]?.persistentDisk).to.deep.equal({ sizeMib: 0, type: "fast" });
  });

  it("migrated_from -> the instance joins the new group in its az; an instance without an az gets the named one", async () => {
    const to = (deployment: string, from: string) =>
      web(`instances: 2\nmigrated_from: [${from}]`)
        .replace("name: web", `name: ${deployment}`)
        .replace("name: db\n", "name: new\n");
    expect((await check.accept(to("here", "{name: db}"))).placed).to.equal("new/0@z1 new/1@z2");
    expect((await check.accept(to("plain", "{name: db, az: z2}"))).placed).to.equal("new/0@z2 new/1@z1");
    expect((await check.accept(to("plain", "{name: other}, {name: none}"))).placed).to.equal("new/0@z1 new/1@z2");
  });
});
