import { existsSync } from "node:fs";
import { devicesWithBytes, ExportKind, OnHostSilence } from "@diskmesh/api/registry";
import type { Capacity, Cpi, NewDisk } from "@diskmesh/cpi";
import { cpiContract, newCall, RemoteCpi, reasonOfFailed } from "@diskmesh/cpi/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, type ServiceProcess } from "@diskmesh/testkit";
import { expect } from "chai";
import { contextOf } from "../testing/test-dispatcher.js";
import { TestFleet } from "../testing/test-fleet.js";

describe("the fleet CPI, with a registry and two agents", () => {
  let fleet: TestFleet;
  let cpi: Cpi;

  before(async () => {
    fleet = await TestFleet.start();
    cpi = new RemoteCpi(fleet.dispatcher("director"));
  });

  after(() => fleet?.stop());

  cpiContract("the fleet CPI", async () => ({
    cpi,
    az: "z1",
    optional: ["list_vms", "resize_disk"],
    close: async () => {},
  }));

  const createVm = (agentId: string, az = "z1") =>
    cpi.createVm({ agentId, stemcellCid: "", cloudProperties: {}, networks: {}, diskCids: [], env: {}, az }, newCall());

  const make = (disk: Partial<NewDisk>) =>
    cpi.createDisk({ sizeMib: 1, cloudProperties: {}, vmCid: "", az: "z1", token: "", ...disk }, newCall());
  const createDisk = async (disk: Partial<NewDisk>) => (await make(disk)).diskCid;

  it("makes VMs of hosts, whose agents have the hosts' ids", async () => {
    const vm = await createVm("agent-1");
    const { hosts } = await fleet.registry().listHosts({ vmCid: vm.vmCid });
    expect(vm.vmCid).to.equal("vm-agent-1");
    expect(hosts.map((host) => host.hostId)).to.deep.equal([vm.agentId]);
    await cpi.deleteVm(vm.vmCid, newCall());
  });

  it("has as many VMs as hosts, and none in an az without hosts", async () => {
    const vms = [await createVm("agent-1"), await createVm("agent-2")];
    expect(await reasonOfFailed(createVm("agent-3"))).to.equal("NO_HOST_FREE");
    for (const { vmCid } of vms) await cpi.deleteVm(vmCid, newCall());
    expect(await reasonOfFailed(createVm("agent-3", "z9"))).to.equal("NO_HOST_FREE");
  });

  it("returns a hint with the export's socket on the VM's host", async () => {
    const [{ vmCid }, diskCid] = [await createVm("agent-1"), await createDisk({})];
    const hint = (await cpi.attachDisk(vmCid, diskCid, newCall())) as { path: string };
    expect(hint.path).to.match(new RegExp(`/exports/${diskCid}\\.sock$`));
    expect(existsSync(hint.path)).to.equal(true);
    await cpi.detachDisk(vmCid, diskCid, newCall());
    expect(existsSync(hint.path)).to.equal(false);
    await cpi.deleteVm(vmCid, newCall());
    await cpi.deleteDisk(diskCid, newCall());
  });

  it("names disks by their token, and refuses the token for another size", async () => {
    const diskCid = await createDisk({ token: "t1" });
    expect(diskCid).to.equal("disk-t1");
    expect(await reasonOfFailed(createDisk({ token: "t1", sizeMib: 2 }))).to.equal("ALREADY_EXISTS");
    await cpi.deleteDisk(diskCid, newCall());
  });

  it("accepts every stemcell and creates none; finds its objects by the token", async () => {
    const director = fleet.dispatcher("director");
    const request = {
      imagePath: "/image",
      cloudProperties: {},
      stemcellFormats: ["aws-raw"],
      tags: {},
    };
    const context = contextOf(1);
    const { stemcells } = await director.createStemcell({ ...request, context });
    expect(stemcells).to.deep.equal([{ cpi: "", stemcellCid: "", error: "" }]);
    expect(await director.info({ context })).to.deep.include({ findsByToken: true, stemcellFormats: [] });
  });

  it("places a disk on its VM's own host if that has as good devices as others", async () => {
    const { vmCid, agentId } = await createVm("agent-1");
    const diskCids = await Promise.all([1, 2, 3, 4].map(() => createDisk({ vmCid })));
    const { devices } = await fleet.registry().listDevices({ hostId: agentId });
    const there = devices.map(({ diskId }) => diskId).filter((diskId) => diskId !== "");
    expect(there).to.have.members(diskCids);
    for (const diskCid of diskCids) await cpi.deleteDisk(diskCid, newCall());
    await cpi.deleteVm(vmCid, newCall());
  });

  it("stores the name and metadata as labels, and replaces them", async () => {
    const diskCid = await createDisk({ cloudProperties: { name: "scratch" } });
    const labels = async () => (await fleet.registry().getDisk({ diskId: diskCid })).disk?.labels;
    expect(await labels()).to.deep.equal([{ name: "disk_name", value: "scratch" }]);
    await cpi.setDiskMetadata(diskCid, { deployment: "d", index: 1 }, newCall());
    expect(await labels()).to.deep.equal([
      { name: "deployment", value: "d" },
      { name: "index", value: "1" },
    ]);
    await cpi.setDiskMetadata(diskCid, { instance: "i" }, newCall());
    expect(await labels()).to.deep.equal([{ name: "instance", value: "i" }]);
    await cpi.deleteDisk(diskCid, newCall());
  });

  it("places a disk in the az of its VM, and refuses another az", async () => {
    const { vmCid } = await createVm("agent-1");
    expect(await reasonOfFailed(createDisk({ vmCid, az: "z9" }))).to.equal("INVALID_ARGUMENT");
    const diskCid = await createDisk({ vmCid, az: "" });
    expect((await fleet.registry().getDisk({ diskId: diskCid })).disk?.az).to.equal("z1");
    await cpi.deleteDisk(diskCid, newCall());
    await cpi.deleteVm(vmCid, newCall());
  });

  it("gives up at the caller's deadline while an agent hangs, and attaches when called again", async () => {
    const [{ vmCid, agentId }, diskCid] = [await createVm("agent-1"), await createDisk({})];
    const agent = fleet.agents.get(agentId) as ServiceProcess;
    agent.signal("SIGSTOP");
    const startedAtMs = Date.now();
    const hurried = { ...newCall(), deadlineAtMs: startedAtMs + 1_000 };
    expect(await reasonOfFailed(cpi.attachDisk(vmCid, diskCid, hurried))).to.be.oneOf(["TIMEOUT", "UNAVAILABLE"]);
    expect(Date.now() - startedAtMs).to.be.below(20_000);
    agent.signal("SIGCONT");
    expect(await cpi.attachDisk(vmCid, diskCid, newCall())).to.have.property("path");
    await cpi.deleteVm(vmCid, newCall());
    await cpi.deleteDisk(diskCid, newCall());
  });

  it("uses a host without a VM, and acts for a VM on the VM's disks alone", async () => {
    const { vmCid, agentId } = await createVm("agent-1");
    const host = `host/${agentId}`;
    const [ofHost, ofVm] = [await createDisk({ vmCid: host, az: "" }), await createDisk({})];
    const disk = async () => (await fleet.registry().getDisk({ diskId: ofHost })).disk;
    expect(await cpi.hasVm(host, newCall())).to.deep.equal({ exists: true, az: "z1" });
    expect((await fleet.registry().getDevice({ deviceId: devicesWithBytes(await disk())[0] })).device).to.include({
      hostId: agentId,
    });
    const { path } = (await cpi.attachDisk(host, ofHost, newCall())) as { path: string };
    await cpi.attachDisk(vmCid, ofVm, newCall());
    expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([ofVm]);
    await cpi.deleteVm(vmCid, newCall());
    expect((await disk())?.publication).to.include({ hostId: agentId, vmCid: "", exportPath: path });
    expect((await fleet.registry().getDisk({ diskId: ofVm })).disk?.publication).to.equal(undefined);
    await cpi.detachDisk(host, ofHost, newCall());
    await cpi.detachDisk(host, ofHost, newCall());
    expect((await disk())?.publication).to.equal(undefined);
    for (const diskCid of [ofHost, ofVm]) await cpi.deleteDisk(diskCid, newCall());
  });

  it("has no host of an unknown id, and makes no VM of a host's CID", async () => {
    expect(await cpi.hasVm("host/nobody", newCall())).to.deep.equal({ exists: false, az: "" });
    const diskCid = await createDisk({});
    expect(await reasonOfFailed(cpi.attachDisk("host/nobody", diskCid, newCall()))).to.equal("VM_NOT_FOUND");
    await cpi.deleteDisk(diskCid, newCall());
    for (const [call, reason] of [
      [cpi.hasVm("host/", newCall()), "INVALID_ARGUMENT"],
      [cpi.hasVm("host/../x", newCall()), "INVALID_ARGUMENT"],
      [cpi.attachDisk("host/a b", "disk-1", newCall()), "INVALID_ARGUMENT"],
      [cpi.getDisks("host/host-1", newCall()), "INVALID_ARGUMENT"],
      [cpi.deleteVm("host/host-1", newCall()), "INVALID_ARGUMENT"],
    ] as const)
      expect(await reasonOfFailed(call)).to.equal(reason);
  });

  it("answers NOT_FOUND for ids that it cannot have assigned", async () => {
    for (const cid of ["x".repeat(65), "vol:1.2"]) {
      expect(await cpi.hasDisk(cid, newCall())).to.equal(false);
      expect((await cpi.hasVm(cid, newCall())).exists).to.equal(false);
    }
  });

  it("enlarges a disk by whole devices of its az, attached or not, and keeps its content", async () => {
    const [{ vmCid }, diskCid] = [await createVm("agent-1"), await createDisk({})];
    const disk = async () => (await fleet.registry().getDisk({ diskId: diskCid })).disk;
    const [device] = devicesWithBytes(await disk());
    await cpi.attachDisk(vmCid, diskCid, newCall());
    await cpi.resizeDisk(diskCid, 2, newCall());
    expect((await disk())?.publication).to.include({ changePending: false });
    await cpi.detachDisk(vmCid, diskCid, newCall());
    await cpi.resizeDisk(diskCid, 3, newCall());
    expect(await disk()).to.include({ sizeBytes: 3 * MIB_BYTES });
    expect(devicesWithBytes(await disk())[0]).to.equal(device);
    await cpi.resizeDisk(diskCid, 2, newCall());
    expect(await reasonOfFailed(cpi.resizeDisk(diskCid, 2 ** 30, newCall()))).to.equal("NO_DISK_SPACE");
    expect(await disk()).to.include({ sizeBytes: 3 * MIB_BYTES });
    expect(await cpi.attachDisk(vmCid, diskCid, newCall())).to.have.property("path");
    await cpi.deleteVm(vmCid, newCall());
    await cpi.deleteDisk(diskCid, newCall());
  });

  it("passes limits, the kind of export and the rule for a silent host to the registry, and changes limits of an attached disk", async () => {
    const limits = { read_iops: 100, write_bytes_per_second: 2_000_000, burst_seconds: 2 };
    const { vmCid } = await createVm("agent-1");
    const diskCid = await createDisk({ cloudProperties: { limits, export: "nbd", on_host_silence: "fence" } });
    const disk = async () => (await fleet.registry().getDisk({ diskId: diskCid })).disk;
    expect((await disk())?.exportKind).to.equal(ExportKind.NBD);
    expect((await disk())?.limits).to.include({ readIops: 100, writeIops: 0, writeBytesPerSecond: 2_000_000 });
    await cpi.attachDisk(vmCid, diskCid, newCall(), { readOnly: true });
    expect((await disk())?.publication).to.include({ readOnly: true, onHostSilence: OnHostSilence.FENCE });
    expect(await reasonOfFailed(cpi.attachDisk(vmCid, diskCid, newCall()))).to.equal("DISK_IN_USE");
    await cpi.setDiskLimits(diskCid, undefined, newCall());
    expect((await disk())?.limits).to.equal(undefined);
    expect(await reasonOfFailed(cpi.setDiskLimits("disk-never", undefined, newCall()))).to.equal("DISK_NOT_FOUND");
    await cpi.deleteVm(vmCid, newCall());
    await cpi.deleteDisk(diskCid, newCall());
  });

  it("reports the space of a disk type's pool in an az", async () => {
    const capacity = () => cpi.getCapacity("z1", {}, newCall());
    const isAllFree = ({ totalBytes, freeBytes }: Capacity) => totalBytes > 0 && freeBytes === totalBytes;
    await eventually(async () => expect(isAllFree(await capacity())).to.equal(true));
    const diskCid = await createDisk({});
    const { totalBytes, freeBytes } = await capacity();
    expect(totalBytes - freeBytes).to.be.within(MIB_BYTES, totalBytes - MIB_BYTES);
    expect(await cpi.getCapacity("z9", {}, newCall())).to.deep.equal({ totalBytes: 0, freeBytes: 0, maxDiskBytes: 0 });
    await cpi.deleteDisk(diskCid, newCall());
  });

  const refused: Record<string, [() => Promise<unknown>, string]> = {
    "a disk without az or VM": [() => createDisk({ az: "" }), "INVALID_ARGUMENT"],
    "a disk of a pool nobody has": [() => createDisk({ cloudProperties: { pool: "gold" } }), "NO_DISK_SPACE"],
    "a disk of a pool that is no name": [() => createDisk({ cloudProperties: { pool: 5 } }), "INVALID_ARGUMENT"],
    "a limit that is no number": [
      () => createDisk({ cloudProperties: { limits: { read_iops: "many" } } }),
      "INVALID_ARGUMENT",
    ],
    "a limit that nobody knows": [() => createDisk({ cloudProperties: { limits: { iops: 5 } } }), "INVALID_ARGUMENT"],
    "an export of an unknown kind": [() => createDisk({ cloudProperties: { export: "iscsi" } }), "INVALID_ARGUMENT"],
    "a disk in an az without hosts": [() => createDisk({ az: "z9" }), "NO_DISK_SPACE"],
    "to delete a VM whose id is a path": [() => cpi.deleteVm("../vm", newCall()), "INVALID_ARGUMENT"],
    "to delete a disk whose id is a path": [() => cpi.deleteDisk("../disk", newCall()), "INVALID_ARGUMENT"],
    "to resize a disk whose id is a path": [() => cpi.resizeDisk("../disk", 1, newCall()), "INVALID_ARGUMENT"],
  };
  for (const [what, [call, reason]] of Object.entries(refused))
    it(`refuses ${what} with ${reason}`, async () => {
      expect(await reasonOfFailed(call())).to.equal(reason);
    });
});
