import { PersistentDiskState, TaskState } from "@diskmesh/api/director";
import { VmCreationFailedError } from "@diskmesh/cpi";
import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { leaveToVerify, stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const CLOUD = `
azs: [{name: z1, cloud_properties: {zone: a, size: az}}, {name: z2}]
vm_types: [{name: small, cloud_properties: {size: type, ram: 1}}]
vm_extensions: [{name: public, cloud_properties: {ram: 2, lb: web}}]
disk_types: [{name: fast, disk_size: 1024, cloud_properties: {type: ssd}}, {name: large, disk_size: 2048, cloud_properties: {type: ssd}}, {name: other, disk_size: 2048, cloud_properties: {type: hdd}}]
networks:
- name: private
  type: manual
  subnets:
  - {range: 10.0.0.0/29, gateway: 10.0.0.1, azs: [z1], reserved: [10.0.0.2], static: [10.0.0.5], dns: [8.8.8.8], cloud_properties: {net: n1}}
- {name: any, type: dynamic, cloud_properties: {net: n2}}
- {name: floating, type: vip}
`;
const CANARY = "canary-h1dden";

describe("VMs and disks of deployments", () => {
  let director: TestDirector;

  before(async () => {
    const settings = { mbus: { urls: [`nats://user:${CANARY}@10.0.0.6:4222`] }, ntp: ["0.pool"] };
    const tuning = { agents: { detachTimeoutMs: 500 } };
    director = await TestDirector.start({ agents: { readyTimeoutMs: 30_000, settings }, tuning });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
    for (const agent of director.agents) agent.calls.length = 0;
    director.cpi.apiVersions.clear();
    director.cpi.lacking.clear();
    for (const { diskCid } of await disks(true)) await deleteOrphan(diskCid);
    director.dispatcher.contexts.length = 0;
    director.cpi.calls.length = 0;
  });

  const manifest = (group: string, instances = 1, more = "") =>
    `name: web\n${more}\ninstance_groups:\n- {name: db, instances: ${instances}, azs: [z1], ${group}}\n`;
  const deploy = async (text: string) => (await director.deployments.deploy({ manifest: text, wait: true })).task;
  const deployed = async (text: string) => {
    const task = await deploy(text);
    expect(task?.result).to.equal("/deployments/web");
  };
  const instances = async () => (await director.deployments.listInstances({ deployment: "web" })).instances;
  const disks = async (orphaned = false) => (await director.deployments.listPersistentDisks({ orphaned })).disks;
  const deleteOrphan = async (diskCid: string) =>
    (await director.deployments.deleteOrphanedDisk({ diskCid, wait: true })).task;
  const requests = () => [...director.cpi.vms.values()].map((vm) => vm.request);

  it("az, VM type and extensions -> merged, later ones override; tags and settings in env", async () => {
    await deployed(
      manifest("vm_type: small, vm_extensions: [public], env: {a: 1, bosh: {ntp: [mine]}}", 1, "tags: {team: t}"),
    );
    const [request] = requests();
    expect(request?.cloudProperties).to.deep.equal({ zone: "a", size: "type", ram: 2, lb: "web" });
    expect(request?.env).to.deep.equal({
      a: 1,
      bosh: {
        mbus: { urls: [`nats://user:${CANARY}@10.0.0.6:4222`] },
        ntp: ["mine"],
        group: "diskmesh-web-db",
        groups: ["diskmesh", "web", "db", "diskmesh-web", "web-db", "diskmesh-web-db"],
        tags: { team: "t" },
      },
    });
    const [vm] = director.cpi.vms.values();
    const [instance] = await instances();
    expect(vm?.metadata).to.include({
      team: "t",
      director: "diskmesh",
      deployment: "web",
      id: instance?.instanceId,
      job: "db",
      index: "0",
      name: `db/${instance?.instanceId}`,
    });
  });

  it("networks -> in the CPI contract's format; addresses kept and unique; no free address -> an error", async () => {
    const networks =
      "networks: [{name: private, default: [dns, gateway]}, {name: any}, {name: floating, static_ips: [1.2.3.4, 1.2.3.5]}]";
    await deployed(manifest(networks, 2));
    const expected = {
      private: {
        type: "manual",
        ip: "10.0.0.3",
        prefix: "32",
        netmask: "255.255.255.248",
        cloud_properties: { net: "n1" },
        dns: ["8.8.8.8"],
        gateway: "10.0.0.1",
        default: ["dns", "gateway"],
      },
      any: { type: "dynamic", prefix: "32", cloud_properties: { net: "n2" } },
      floating: { type: "vip", ip: "1.2.3.4", prefix: "32", cloud_properties: {} },
    };
    // The VMs are created concurrently, so their requests have no fixed order.
    const withIp = (ip: string) =>
      requests()
        .map(({ networks }) => networks as { readonly private: { readonly ip: string } })
        .find((networks) => networks.private.ip === ip);
    expect(withIp("10.0.0.3")).to.deep.equal(expected);
    expect(withIp("10.0.0.4")).to.deep.include({ private: { ...expected.private, ip: "10.0.0.4" } });
    expect((await instances())[0]?.networks).to.deep.equal(expected);
    const full = await deploy(manifest("networks: [{name: private}]", 3));
    expect(full?.state).to.equal(TaskState.DONE, full?.result);
    // The new VM is created first. The others are recreated with fewer networks and keep their addresses.
    expect(requests().map((request) => (request.networks as { private: { ip: string } }).private.ip)).to.deep.equal([
      "10.0.0.6",
      "10.0.0.3",
      "10.0.0.4",
    ]);
    const taken = await deploy(manifest("networks: [{name: private}]", 4));
    expect(taken?.result).to.match(/network `private` has no free address in AZ `z1`/);
  });

  const ipsOf = () =>
    Object.fromEntries(
      [...director.cpi.vms].map(([vmCid, vm]) => [
        vmCid,
        (vm.request.networks as { private: { ip: string } }).private.ip,
      ]),
    );
  const swapping = (...ips: string[]) =>
    manifest(`networks: [{name: private, static_ips: [${ips.join(", ")}]}], persistent_disk: 64`, ips.length);

  it("swapped static addresses -> never two VMs with one address; a third takes one over; each keeps its disk", async () => {
    await director.configs.updateConfig({
      type: "cloud",
      content: CLOUD.replace("static: [10.0.0.5]", "static: [10.0.0.4-10.0.0.6]"),
    });
    await deployed(swapping("10.0.0.4", "10.0.0.5"));
    const before = await instances();
    const given: string[] = [];
    const { vms } = director.cpi;
    const set = vms.set.bind(vms);
    vms.set = (vmCid, vm) => {
      set(vmCid, vm);
      given.push(Object.values(ipsOf()).join(" "));
      return vms;
    };
    await deployed(swapping("10.0.0.5", "10.0.0.4"));
    const swapped = await instances();
    expect(swapped.map(({ instanceId }) => instanceId)).to.deep.equal(before.map(({ instanceId }) => instanceId));
    expect(swapped.map(({ vmCid }) => ipsOf()[vmCid])).to.deep.equal(["10.0.0.5", "10.0.0.4"]);
    await deployed(swapping("10.0.0.6", "10.0.0.5", "10.0.0.4"));
    expect((await instances()).map(({ vmCid }) => ipsOf()[vmCid])).to.deep.equal(["10.0.0.6", "10.0.0.5", "10.0.0.4"]);
    vms.set = set;
    expect(given).to.have.length(5);
    for (const ips of given) expect(ips.split(" "), ips).to.have.length(new Set(ips.split(" ")).size);
    expect((await disks()).map(({ state }) => state)).to.deep.equal([
      PersistentDiskState.MOUNTED,
      PersistentDiskState.MOUNTED,
      PersistentDiskState.MOUNTED,
    ]);
    director.cpi.calls.length = 0;
    await deployed(swapping("10.0.0.6", "10.0.0.5", "10.0.0.4"));
    expect(director.cpi.calls).to.deep.equal([]);
  });

  it("killed during a swap of static addresses -> the next director finishes", async function () {
    leaveToVerify(this);
    await director.configs.updateConfig({
      type: "cloud",
      content: CLOUD.replace("static: [10.0.0.5]", "static: [10.0.0.4-10.0.0.6]"),
    });
    await deployed(swapping("10.0.0.4", "10.0.0.5"));
    const gate = director.cpi.gate("createVm", "after");
    const { task } = await director.deployments.deploy({ manifest: swapping("10.0.0.5", "10.0.0.4") });
    await gate.reached;
    await director.process.kill();
    await director.process.start();
    gate.release();
    expect(await director.ended(task?.taskId ?? 0)).to.include({ state: TaskState.DONE, attempts: 2 });
    expect((await instances()).map(({ vmCid }) => ipsOf()[vmCid])).to.deep.equal(["10.0.0.5", "10.0.0.4"]);
  });

  const REFUSED: [string, string, RegExp][] = [
    ["an unknown vm_type", "vm_type: x", /vm_type `x` is in no cloud config: the vm_types are `small`/],
    ["an unknown extension", "vm_extensions: [x]", /vm_extension `x` is in no cloud config/],
    ["an unknown network", "networks: [{name: x}]", /network `x` is in no cloud config: the networks are/],
    ["an unknown disk type", "persistent_disk_type: x", /could not find disk type `x`/],
  ];
  for (const [cause, group, effect] of REFUSED) {
    it(`${cause} -> refused before any effect`, async () => {
      await rejection(deploy(manifest(group)), Error, effect);
      expect(director.cpi.calls).to.deep.equal([]);
    });
  }

  it("a persistent disk -> created near the VM, attached, and mounted by the agent; repeated -> no change", async () => {
    await deployed(manifest("persistent_disk_type: fast"));
    const [instance] = await instances();
    const [disk] = await disks();
    const cid = disk?.diskCid ?? "";
    expect(disk).to.include({
      state: PersistentDiskState.MOUNTED,
      vmCid: instance?.vmCid,
      sizeBytes: 1024 * 1024 * 1024,
      group: "db",
    });
    expect(disk?.diskHint).to.deep.equal({ path: `/memory/${cid}`, lun: "3" });
    expect(director.cpi.disks.get(cid)).to.deep.include({ vmCid: instance?.vmCid, cloudProperties: { type: "ssd" } });
    expect(director.cpi.disks.get(cid)?.metadata).to.include({ deployment: "web", instance_index: "0" });
    expect(director.agent("host-1").calls).to.deep.equal([`add_persistent ${cid}`, `mount ${cid}`]);
    director.cpi.calls.length = 0;
    await deployed(manifest("persistent_disk_type: fast"));
    expect(director.cpi.calls).to.deep.equal([]);
  });

  it("a disk no longer wanted -> unmounted, detached, an orphan; deleted by id; unknown -> tried with all CPIs", async () => {
    await deployed(manifest("persistent_disk: 512"));
    const [disk] = await disks();
    const cid = disk?.diskCid ?? "";
    await rejection(
      deleteOrphan(cid),
      InvalidStateError,
      /is the persistent disk of db\/.*: remove it from the manifest/,
    );
    await deployed(manifest("persistent_disk: 0"));
    expect(director.agent("host-1").calls.slice(-2)).to.deep.equal([`unmount ${cid}`, `remove_persistent ${cid}`]);
    expect((await disks(true)).map((each) => [each.diskCid, each.vmCid])).to.deep.equal([[cid, ""]]);
    expect((await deleteOrphan(cid))?.result).to.equal(`deleted disk \`${cid}\``);
    expect(director.cpi.disks.has(cid)).to.equal(false);
    expect((await deleteOrphan(cid))?.result).to.equal(`disk \`${cid}\` was already deleted`);
    expect(director.dispatcher.contexts.at(-1)?.context).to.include({ unknownId: true });
  });

  it("the CPI refuses to attach a persistent disk -> it stays detached; no longer wanted -> an orphan at once", async () => {
    director.cpi.failNext("attachDisk", new InvalidStateError("the slot is taken"));
    expect((await deploy(manifest("persistent_disk: 512")))?.result).to.match(/attachDisk failed: the slot is taken/);
    const [disk] = await disks();
    expect(disk).to.include({ state: PersistentDiskState.DETACHED, vmCid: "" });
    await deployed(manifest("persistent_disk: 0"));
    expect((await disks(true)).map((each) => each.diskCid)).to.deep.equal([disk?.diskCid]);
    expect(director.cpi.calls.filter((call) => call.startsWith("detachDisk"))).to.deep.equal([]);
  });

  it("the instance leaves, its agent dead -> its disk is detached, and kept as an orphan", async () => {
    await deployed(manifest("persistent_disk: 512"));
    await director.agent("host-1").stop();
    await deployed(manifest("persistent_disk: 512", 0));
    // The VM was deleted, and its mounts with it.
    director.agent("host-1").mountedCid = undefined;
    await director.agent("host-1").start();
    const [disk] = await disks(true);
    expect(director.cpi.disks.get(disk?.diskCid ?? "")?.vmCid).to.equal("");
    expect(director.cpi.vms.size).to.equal(0);
  });

  it("larger -> detached, resized, attached again; another type -> updated, with its new id", async () => {
    await deployed(manifest("persistent_disk_type: fast"));
    await deployed(manifest("persistent_disk_type: large"));
    const [resized] = await disks();
    expect(director.cpi.disks.get(resized?.diskCid ?? "")).to.include({ sizeMib: 2048 });
    expect(resized).to.include({ state: PersistentDiskState.MOUNTED, sizeBytes: 2048 * 1024 * 1024 });
    await deployed(manifest("persistent_disk_type: other"));
    const [updated] = await disks();
    expect(updated?.diskCid).to.equal(`${resized?.diskCid}u`);
    expect(director.agent("host-1").mountedCid).to.equal(updated?.diskCid);
    expect(await disks(true)).to.deep.equal([]);
  });

  it("the CPI cannot resize -> an error with the reason, and the disk as before; smaller -> refused", async () => {
    await deployed(manifest("persistent_disk_type: fast"));
    const [before] = await disks();
    director.cpi.lacking.add("resizeDisk");
    const failed = await deploy(manifest("persistent_disk_type: large"));
    expect(failed?.result).to.match(
      /its CPI cannot change disks, and agent host-1 cannot copy disks .*keep the disk's size and type, or remove the disk first/,
    );
    expect(await disks()).to.deep.equal([before]);
    expect(director.agent("host-1").mountedCid).to.equal(before?.diskCid);
    director.cpi.calls.length = 0;
    const smaller = await deploy(manifest("persistent_disk: 512"));
    expect(smaller?.result).to.match(/has 1024 MiB and cannot shrink to 512 MiB/);
    expect(director.cpi.calls).to.deep.equal([]);
  });

  it("a CPI without optional methods -> tolerated, each noted once, and not called again", async () => {
    director.cpi.lacking.add("setVmMetadata").add("setDiskMetadata").add("hasVm");
    const task = await deploy(manifest("persistent_disk: 512"));
    expect(task?.result).to.equal("/deployments/web");
    expect((await disks())[0]?.state).to.equal(PersistentDiskState.MOUNTED);
    const notesOf = async (taskId = 0) =>
      (await director.eventTexts(taskId)).filter((line) => /^CPI method missing .* started/.test(line));
    expect(await notesOf(task?.taskId)).to.have.length(2);
    const asked = () => director.dispatcher.contexts.filter(({ method }) => /^set.*Metadata$/.test(method));
    expect(asked()).to.have.length(2);
    const next = await deploy(manifest("persistent_disk: 512", 2));
    expect(next?.result).to.equal("/deployments/web");
    expect(asked()).to.have.length(2);
    expect((await notesOf(next?.taskId)).join()).to.match(/^CPI method missing CPI hasVm failed/);
    const last = await deploy(manifest("persistent_disk: 512", 2));
    expect(await notesOf(last?.taskId)).to.deep.equal([]);
    expect(director.dispatcher.contexts.filter(({ method }) => method === "hasVm")).to.have.length(1);
  });

  it("create_vm fails with a retry allowed -> five attempts with the same agent id", async () => {
    const again = () => new VmCreationFailedError("no capacity", { about: { ok_to_retry: "true" } });
    for (let count = 0; count < 4; count++) director.cpi.failNext("createVm", again());
    await deployed(manifest("env: {}"));
    expect(director.dispatcher.contexts.filter(({ method }) => method === "createVm")).to.have.lengthOf(5);
    await deployed(manifest("env: {}", 0));
    director.dispatcher.contexts.length = 0;
    for (let count = 0; count < 5; count++) director.cpi.failNext("createVm", again());
    expect((await deploy(manifest("env: {}")))?.result).to.match(/no capacity/);
    expect(director.dispatcher.contexts.filter(({ method }) => method === "createVm")).to.have.lengthOf(5);
    director.cpi.failNext("createVm", new VmCreationFailedError("never"));
    director.dispatcher.contexts.length = 0;
    expect((await deploy(manifest("env: {}")))?.result).to.match(/never/);
    expect(director.dispatcher.contexts.filter(({ method }) => method === "createVm")).to.have.lengthOf(1);
    expect((await instances())[0]?.vmCid).to.equal("");
  });

  for (const when of ["before", "after"] as const) {
    it(`killed ${when} the effect of resizeDisk on a persistent disk -> the next director finishes`, async function () {
      leaveToVerify(this);
      await deployed(manifest("persistent_disk: 512"));
      const gate = director.cpi.gate("resizeDisk", when);
      const { task } = await director.deployments.deploy({ manifest: manifest("persistent_disk: 600") });
      await gate.reached;
      await director.process.kill();
      await director.process.start();
      gate.release();
      expect(await director.ended(task?.taskId ?? 0)).to.include({ state: TaskState.DONE, attempts: 2 });
      const [disk, more] = await disks();
      expect(more).to.equal(undefined);
      expect(disk).to.include({ state: PersistentDiskState.MOUNTED, sizeBytes: 600 * 1024 * 1024 });
      expect(director.cpi.disks.size).to.equal(1);
      expect(director.cpi.disks.get(disk?.diskCid ?? "")).to.include({ sizeMib: 600, vmCid: disk?.vmCid });
    });
  }

  it("a stemcell or CPI of version 1 without a bosh-registry -> an error with the remedy", async () => {
    director.cpi.apiVersions.set("", 1);
    const old = await deploy(manifest("env: {}"));
    expect(old?.result).to.match(/needs the bosh-registry, .* add `boshRegistry` to the director's config/);
    director.cpi.apiVersions.clear();
    await director.upload(stemcellFile({ version: "1", api_version: null }));
    const text = manifest("stemcell: a", 1, 'stemcells: [{alias: a, name: ubuntu, version: "1"}]');
    expect((await deploy(text))?.result).to.match(/needs the bosh-registry/);
    await director.stemcells.deleteStemcell({ name: "ubuntu", version: "1", wait: true });
    await deploy(manifest("env: {}", 0));
  });

  it("an invalid disk id, or a dynamic disk's -> refused", async () => {
    await deployed(manifest("env: {}"));
    await rejection(deleteOrphan("../x"), Error, /disk_cid "\.\.\/x" is malformed/);
    await director.provide("data", (await instances())[0]?.instanceId ?? "");
    const { disk } = await director.disks.getDynamicDisk({ diskName: "data" });
    await rejection(deleteOrphan(disk?.diskCid ?? ""), InvalidStateError, /is the dynamic disk `data`/);
    await director.detach("data");
    await director.delete("data");
    await rejection(director.disks.getDynamicDisk({ diskName: "data" }), NotFoundError);
  });

  it("after all that -> the director's logs contain no secret", () => {
    expect(director.process.logs).to.contain("leadership gained").and.not.contain(CANARY);
  });
});
