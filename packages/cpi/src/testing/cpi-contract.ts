import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { DomainError, MIB_BYTES } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { Cpi, CpiCall, ListedVm, NewDisk } from "../cpi.js";
import { type CpiReason, isCpiError } from "../errors.js";

/** A CPI to be tested, with room for two VMs and four disks of 1 MiB in one availability zone. */
export interface CpiUnderTest {
  readonly cpi: Cpi;
  readonly az: string;
  readonly close: () => Promise<void>;
  /** Stemcell of the VMs; empty when the CPI needs none. */
  readonly stemcellCid?: string;
  /** False when a repeated create_vm or create_disk makes another object. */
  readonly hasTokens?: boolean;
  /** False when agents find disks through the bosh-registry instead of hints. */
  readonly hasHints?: boolean;
  /** Optional methods that the CPI has. All others must fail with NOT_IMPLEMENTED. */
  readonly optional?: readonly OptionalMethod[];
}

type OptionalMethod =
  | "stemcells"
  | "list_vms"
  | "reboot_vm"
  | "set_vm_metadata"
  | "resize_disk"
  | "update_disk"
  | "snapshots"
  | "calculate_vm_cloud_properties";

/** Errors for an object in use by another. Executable CPIs have no error type of their own for it. */
const IN_USE = ["INVALID_STATE", "DISK_IN_USE", "CPI_FAILED"];

const CALL_TIMEOUT_MS = 20_000;

/** Returns the context of a call that nobody cancels. */
export function newCall(): CpiCall {
  return {
    signal: new AbortController().signal,
    deadlineAtMs: Date.now() + CALL_TIMEOUT_MS,
    requestId: randomUUID(),
    directorId: "director-of-the-contract",
    stemcellApiVersion: 0,
    preferredApiVersion: 0,
    onLogLine: () => {},
  };
}

/** Defines the tests that every CPI must pass. Each case deletes the objects that it made. */
export function cpiContract(name: string, makeCpi: () => Promise<CpiUnderTest>): void {
  describe(`the CPI contract: ${name}`, () => {
    let tried: CpiUnderTest;
    let cpi: Cpi;
    const vmCids = new Set<string>();
    const diskCids = new Set<string>();

    before(async () => {
      tried = await makeCpi();
      cpi = tried.cpi;
    });

    afterEach(async () => {
      for (const vmCid of vmCids) await cpi.deleteVm(vmCid, newCall()).catch(ignoreReason("VM_NOT_FOUND"));
      for (const diskCid of diskCids) await cpi.deleteDisk(diskCid, newCall()).catch(ignoreReason("DISK_NOT_FOUND"));
      vmCids.clear();
      diskCids.clear();
    });

    after(() => tried?.close());

    async function createVm(agentId: string = randomUUID()): Promise<string> {
      const { vmCid } = await cpi.createVm(newVm(agentId), newCall());
      vmCids.add(vmCid);
      return vmCid;
    }

    async function createDisk(disk: Partial<NewDisk> = {}): Promise<string> {
      const wanted = newDisk(disk);
      const { diskCid, sizeBytes } = await cpi.createDisk(wanted, newCall());
      diskCids.add(diskCid);
      if (sizeBytes !== 0) expect(sizeBytes).to.be.at.least(wanted.sizeMib * MIB_BYTES);
      return diskCid;
    }

    const newVm = (agentId: string) => ({
      agentId,
      stemcellCid: tried.stemcellCid ?? "",
      cloudProperties: {},
      networks: { default: { type: "manual", ip: "10.0.0.5" } },
      diskCids: [],
      env: {},
      az: tried.az,
    });

    const newDisk = (disk: Partial<NewDisk>): NewDisk => ({
      sizeMib: 1,
      cloudProperties: {},
      vmCid: "",
      az: tried.az,
      token: randomUUID(),
      ...disk,
    });

    it("info reports the contract version", async () => {
      const info = await cpi.info(newCall());
      expect(info.apiVersion).to.be.at.least(1);
      expect(info.stemcellFormats).to.be.an("array");
    });

    it("create_vm makes a VM, has_vm finds it, delete_vm deletes it", async () => {
      const made = await cpi.createVm(newVm(randomUUID()), newCall());
      vmCids.add(made.vmCid);
      expect(made.agentId).to.be.a("string").that.is.not.equal("");
      expect(made.networks).to.deep.equal({ default: { type: "manual", ip: "10.0.0.5" } });
      expect((await cpi.hasVm(made.vmCid, newCall())).exists).to.equal(true);
      await cpi.deleteVm(made.vmCid, newCall());
      expect((await cpi.hasVm(made.vmCid, newCall())).exists).to.equal(false);
      expect(await reasonOfFailed(cpi.deleteVm(made.vmCid, newCall()))).to.equal("VM_NOT_FOUND");
    });

    it("create_vm makes another VM for another agent_id, and with tokens returns the same VM for the same agent_id", async () => {
      const agentId = randomUUID();
      const first = await cpi.createVm(newVm(agentId), newCall());
      vmCids.add(first.vmCid);
      if (tried.hasTokens ?? true) expect(await cpi.createVm(newVm(agentId), newCall())).to.deep.equal(first);
      expect(await createVm()).to.not.equal(first.vmCid);
    });

    it("has_vm and has_disk return false for unknown ids", async () => {
      expect((await cpi.hasVm("vm-never", newCall())).exists).to.equal(false);
      expect(await cpi.hasDisk("disk-never", newCall())).to.equal(false);
    });

    it("create_disk makes a disk, has_disk finds it, delete_disk deletes it", async () => {
      const diskCid = await createDisk();
      expect(await cpi.hasDisk(diskCid, newCall())).to.equal(true);
      await cpi.deleteDisk(diskCid, newCall());
      expect(await cpi.hasDisk(diskCid, newCall())).to.equal(false);
      expect(await reasonOfFailed(cpi.deleteDisk(diskCid, newCall()))).to.equal("DISK_NOT_FOUND");
    });

    it("create_disk makes another disk for another token or none, and with tokens returns the same disk for the same token", async () => {
      const token = randomUUID();
      const first = await createDisk({ token });
      if (tried.hasTokens ?? true) expect(await createDisk({ token })).to.equal(first);
      const others = [await createDisk(), await createDisk({ token: "" })];
      expect(new Set([first, ...others]).size).to.equal(3);
    });

    it("create_disk near a VM needs no az", async () => {
      const vmCid = await createVm();
      const diskCid = await createDisk({ vmCid, az: "" });
      expect(await cpi.hasDisk(diskCid, newCall())).to.equal(true);
    });

    it("create_disk without enough space fails and leaves no disk", async () => {
      const token = randomUUID();
      const creating = createDisk({ token, sizeMib: 2 ** 30 });
      expect(await reasonOfFailed(creating)).to.equal("NO_DISK_SPACE");
      expect(await createDisk({ token })).to.be.a("string");
    });

    for (const sizeMib of [0, -1, 2 ** 50])
      it(`create_disk of ${sizeMib} MiB is refused`, async () => {
        expect(await reasonOfFailed(createDisk({ sizeMib }))).to.equal("INVALID_ARGUMENT");
      });

    it("create_disk near an unknown VM fails", async () => {
      expect(await reasonOfFailed(createDisk({ vmCid: "vm-never" }))).to.equal("VM_NOT_FOUND");
    });

    it("attach_disk returns a hint, get_disks lists the disk, detach_disk removes it from the list", async () => {
      const [vmCid, diskCid] = [await createVm(), await createDisk()];
      expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([]);
      const hint = await cpi.attachDisk(vmCid, diskCid, newCall());
      if (tried.hasHints ?? true)
        expect(hint).to.satisfy((value: unknown) => typeof value === "string" || typeof value === "object").and.not.be
          .empty;
      else expect(hint).to.equal(undefined);
      expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([diskCid]);
      expect(await cpi.attachDisk(vmCid, diskCid, newCall()), "again").to.deep.equal(hint);
      await cpi.detachDisk(vmCid, diskCid, newCall());
      expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([]);
      expect(await reasonOfFailed(cpi.detachDisk(vmCid, diskCid, newCall()))).to.equal("DISK_NOT_ATTACHED");
    });

    it("attach_disk to a second VM fails until it is detached from the first", async () => {
      const [first, second, diskCid] = [await createVm(), await createVm(), await createDisk()];
      await cpi.attachDisk(first, diskCid, newCall());
      expect(await reasonOfFailed(cpi.attachDisk(second, diskCid, newCall()))).to.be.oneOf(IN_USE);
      expect(await reasonOfFailed(cpi.detachDisk(second, diskCid, newCall()))).to.equal("DISK_NOT_ATTACHED");
      expect(await cpi.getDisks(first, newCall())).to.deep.equal([diskCid]);
      await cpi.detachDisk(first, diskCid, newCall());
      await cpi.attachDisk(second, diskCid, newCall());
      expect(await cpi.getDisks(second, newCall())).to.deep.equal([diskCid]);
    });

    it("delete_disk of an attached disk fails, and leaves it attached", async () => {
      const [vmCid, diskCid] = [await createVm(), await createDisk()];
      await cpi.attachDisk(vmCid, diskCid, newCall());
      expect(await reasonOfFailed(cpi.deleteDisk(diskCid, newCall()))).to.be.oneOf(IN_USE);
      expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([diskCid]);
    });

    it("delete_vm detaches the disks and keeps them", async () => {
      const [vmCid, other] = [await createVm(), await createVm()];
      const disks = [await createDisk(), await createDisk()];
      for (const diskCid of disks) await cpi.attachDisk(vmCid, diskCid, newCall());
      await cpi.deleteVm(vmCid, newCall());
      for (const diskCid of disks) await cpi.attachDisk(other, diskCid, newCall());
      expect([...(await cpi.getDisks(other, newCall()))].sort()).to.deep.equal(disks.sort());
    });

    it("calls for an unknown VM or disk fail with VM_NOT_FOUND or DISK_NOT_FOUND", async () => {
      const [vmCid, diskCid] = [await createVm(), await createDisk()];
      const failures: Record<string, () => Promise<unknown>> = {
        "attach_disk to it": () => cpi.attachDisk("vm-never", diskCid, newCall()),
        "detach_disk from it": () => cpi.detachDisk("vm-never", diskCid, newCall()),
        "get_disks of it": () => cpi.getDisks("vm-never", newCall()),
      };
      for (const [what, failing] of Object.entries(failures))
        expect(await reasonOfFailed(failing()), what).to.equal("VM_NOT_FOUND");
      const diskFailures: Record<string, () => Promise<unknown>> = {
        "attach_disk of it": () => cpi.attachDisk(vmCid, "disk-never", newCall()),
        "detach_disk of it": () => cpi.detachDisk(vmCid, "disk-never", newCall()),
        "set_disk_metadata of it": () => cpi.setDiskMetadata("disk-never", {}, newCall()),
      };
      for (const [what, failing] of Object.entries(diskFailures))
        expect(await reasonOfFailed(failing()), what).to.equal("DISK_NOT_FOUND");
    });

    it("set_disk_metadata accepts values of any type, repeatedly", async () => {
      const diskCid = await createDisk();
      await cpi.setDiskMetadata(diskCid, { deployment: "d", index: 1, tags: { a: null } }, newCall());
      await cpi.setDiskMetadata(diskCid, {}, newCall());
    });

    /** Runs `test` if the CPI has the optional method; otherwise checks that `use` fails with NOT_IMPLEMENTED. */
    async function ifThere(
      method: OptionalMethod,
      use: () => Promise<unknown>,
      test: () => Promise<void>,
    ): Promise<void> {
      if ((tried.optional ?? []).includes(method)) return test();
      expect(await reasonOfFailed(use())).to.equal("NOT_IMPLEMENTED");
    }

    it("create_stemcell makes a stemcell for create_vm, delete_stemcell deletes it", async () => {
      const stemcell = { imagePath: fileURLToPath(import.meta.url), cloudProperties: {}, tags: { a: "b" } };
      const create = () => cpi.createStemcell(stemcell, newCall());
      await ifThere("stemcells", create, async () => {
        const stemcellCid = await create();
        const { vmCid } = await cpi.createVm({ ...newVm(randomUUID()), stemcellCid }, newCall());
        await cpi.deleteVm(vmCid, newCall());
        await cpi.deleteStemcell(stemcellCid, newCall());
      });
    });

    it("list_vms lists every VM with its agent_id, and no deleted VM", async () => {
      const agentId = randomUUID();
      const vm = await cpi.createVm(newVm(agentId), newCall());
      vmCids.add(vm.vmCid);
      const list = async () => {
        const found: ListedVm[] = [];
        for (let pageToken = "", isFirst = true; isFirst || pageToken !== ""; isFirst = false) {
          const page = await cpi.listVms({ pageSize: 2, pageToken }, newCall());
          found.push(...page.vms);
          pageToken = page.nextPageToken;
        }
        return found;
      };
      await ifThere("list_vms", list, async () => {
        expect(await list()).to.deep.include({ vmCid: vm.vmCid, agentId });
        await cpi.deleteVm(vm.vmCid, newCall());
        expect((await list()).map(({ vmCid }) => vmCid)).not.to.include(vm.vmCid);
      });
    });

    it("reboot_vm keeps the VM", async () => {
      const vmCid = await createVm();
      const reboot = () => cpi.rebootVm(vmCid, newCall());
      await ifThere("reboot_vm", reboot, async () => {
        await reboot();
        expect((await cpi.hasVm(vmCid, newCall())).exists).to.equal(true);
      });
      expect(await reasonOfFailed(cpi.rebootVm("vm-never", newCall()))).to.equal("VM_NOT_FOUND");
    });

    it("set_vm_metadata accepts values of any type, repeatedly", async () => {
      const vmCid = await createVm();
      const set = () => cpi.setVmMetadata(vmCid, { deployment: "d", index: 1, tags: { a: null } }, newCall());
      await ifThere("set_vm_metadata", set, async () => {
        await set();
        await set();
      });
      expect(await reasonOfFailed(cpi.setVmMetadata("vm-never", {}, newCall()))).to.equal("VM_NOT_FOUND");
    });

    it("resize_disk enlarges a disk, which can then be attached", async () => {
      const [vmCid, diskCid] = [await createVm(), await createDisk()];
      const resize = (sizeMib: number) => cpi.resizeDisk(diskCid, sizeMib, newCall());
      await ifThere(
        "resize_disk",
        () => resize(2),
        async () => {
          await resize(2);
          await resize(2);
          expect(await reasonOfFailed(resize(2 ** 30))).to.equal("NO_DISK_SPACE");
          await cpi.attachDisk(vmCid, diskCid, newCall());
          expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([diskCid]);
          expect(await reasonOfFailed(cpi.resizeDisk("disk-never", 2, newCall()))).to.equal("DISK_NOT_FOUND");
        },
      );
    });

    it("update_disk enlarges a disk and may change its id", async () => {
      const diskCid = await createDisk();
      const update = () => cpi.updateDisk(diskCid, 2, { type: "fast" }, newCall());
      await ifThere("update_disk", update, async () => {
        const updated = await update();
        diskCids.add(updated);
        expect(await cpi.hasDisk(updated, newCall())).to.equal(true);
      });
    });

    it("snapshot_disk makes a snapshot, delete_snapshot deletes it", async () => {
      const diskCid = await createDisk();
      const snapshot = () => cpi.snapshotDisk(diskCid, { deployment: "d" }, newCall());
      await ifThere("snapshots", snapshot, async () => {
        const snapshotCid = await snapshot();
        expect(snapshotCid).to.not.equal(await snapshot());
        await cpi.deleteSnapshot(snapshotCid, newCall());
      });
    });

    it("calculate_vm_cloud_properties converts VM requirements to cloud properties", async () => {
      const calculate = () => cpi.calculateVmCloudProperties({ ram: 1024, cpu: 2, ephemeral_disk_size: 10 }, newCall());
      await ifThere("calculate_vm_cloud_properties", calculate, async () => {
        expect(await calculate()).to.be.an("object").that.is.not.empty;
      });
    });

    it("a call with an aborted signal has no effect", async () => {
      const token = randomUUID();
      const call = { ...newCall(), signal: AbortSignal.abort(new Error("given up")) };
      expect(await reasonOfFailed(cpi.createDisk(newDisk({ token }), call))).to.equal("CANCELLED");
      expect(await cpi.hasDisk(`disk-${token}`, newCall())).to.equal(false);
    });
  });
}

/** Returns the reason of a failed call, as callers on the wire get it. */
export async function reasonOfFailed(failing: Promise<unknown>): Promise<string> {
  return (await rejection(failing, DomainError)).reason;
}

function ignoreReason(reason: CpiReason): (error: unknown) => void {
  return (error) => {
    if (!isCpiError(error, reason)) throw error;
  };
}
