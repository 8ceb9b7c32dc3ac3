import { randomUUID } from "node:crypto";
import { reasonOf } from "@diskmesh/rpc";
import { expect } from "chai";
import type { Cpi, CpiCall, NewDisk } from "../cpi.js";

/** A CPI ready to be tried, with room for two VMs and four disks of 1 MiB in one availability zone. */
export interface CpiUnderTest {
  readonly cpi: Cpi;
  readonly az: string;
  readonly close: () => Promise<void>;
}

const CALL_TIMEOUT_MS = 20_000;

/** The calls of a patient caller. */
export function newCall(): CpiCall {
  return {
    signal: new AbortController().signal,
    deadlineAtMs: Date.now() + CALL_TIMEOUT_MS,
    requestId: randomUUID(),
    directorId: "director-of-the-contract",
    stemcellApiVersion: 0,
  };
}

/** What every CPI must do, whatever it is made of. Each case leaves the CPI as empty as it found it. */
export function cpiContract(name: string, makeCpi: () => Promise<CpiUnderTest>): void {
  describe(`the CPI contract: ${name}`, function () {
    this.timeout(60_000);
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
      const diskCid = await cpi.createDisk(newDisk(disk), newCall());
      diskCids.add(diskCid);
      return diskCid;
    }

    const newVm = (agentId: string) => ({
      agentId,
      stemcellCid: "",
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

    it("info says which version it speaks", async () => {
      const info = await cpi.info(newCall());
      expect(info.apiVersion).to.be.at.least(1);
      expect(info.stemcellFormats).to.be.an("array");
    });

    it("create_vm makes a VM, has_vm finds it, delete_vm ends it", async () => {
      const made = await cpi.createVm(newVm(randomUUID()), newCall());
      vmCids.add(made.vmCid);
      expect(made.agentId).to.be.a("string").that.is.not.equal("");
      expect(made.networks).to.deep.equal({ default: { type: "manual", ip: "10.0.0.5" } });
      expect(await cpi.hasVm(made.vmCid, newCall())).to.equal(true);
      await cpi.deleteVm(made.vmCid, newCall());
      expect(await cpi.hasVm(made.vmCid, newCall())).to.equal(false);
      expect(await reasonOfFailed(cpi.deleteVm(made.vmCid, newCall()))).to.equal("VM_NOT_FOUND");
    });

    it("create_vm with the same agent_id finds the same VM, with another makes another", async () => {
      const agentId = randomUUID();
      const first = await cpi.createVm(newVm(agentId), newCall());
      vmCids.add(first.vmCid);
      expect(await cpi.createVm(newVm(agentId), newCall())).to.deep.equal(first);
      expect(await createVm()).to.not.equal(first.vmCid);
    });

    it("has_vm and has_disk know nothing of what never was", async () => {
      expect(await cpi.hasVm("vm-never", newCall())).to.equal(false);
      expect(await cpi.hasDisk("disk-never", newCall())).to.equal(false);
    });

    it("create_disk makes a disk, has_disk finds it, delete_disk ends it", async () => {
      const diskCid = await createDisk();
      expect(await cpi.hasDisk(diskCid, newCall())).to.equal(true);
      await cpi.deleteDisk(diskCid, newCall());
      expect(await cpi.hasDisk(diskCid, newCall())).to.equal(false);
      expect(await reasonOfFailed(cpi.deleteDisk(diskCid, newCall()))).to.equal("DISK_NOT_FOUND");
    });

    it("create_disk with the same token finds the same disk, with another or none makes another", async () => {
      const token = randomUUID();
      const first = await createDisk({ token });
      expect(await createDisk({ token })).to.equal(first);
      const others = [await createDisk(), await createDisk({ token: "" })];
      expect(new Set([first, ...others]).size).to.equal(3);
    });

    it("create_disk near a VM needs no az", async () => {
      const vmCid = await createVm();
      const diskCid = await createDisk({ vmCid, az: "" });
      expect(await cpi.hasDisk(diskCid, newCall())).to.equal(true);
    });

    it("create_disk beyond all space fails and leaves nothing", async () => {
      const token = randomUUID();
      const creating = createDisk({ token, sizeMib: 2 ** 30 });
      expect(await reasonOfFailed(creating)).to.equal("NO_DISK_SPACE");
      expect(await createDisk({ token })).to.be.a("string");
    });

    for (const sizeMib of [0, -1, 2 ** 50])
      it(`create_disk of ${sizeMib} MiB is refused`, async () => {
        expect(await reasonOfFailed(createDisk({ sizeMib }))).to.equal("INVALID_ARGUMENT");
      });

    it("create_disk near a VM that never was fails", async () => {
      expect(await reasonOfFailed(createDisk({ vmCid: "vm-never" }))).to.equal("VM_NOT_FOUND");
    });

    it("attach_disk gives a hint, get_disks shows it, detach_disk ends it", async () => {
      const [vmCid, diskCid] = [await createVm(), await createDisk()];
      expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([]);
      const hint = await cpi.attachDisk(vmCid, diskCid, newCall());
      expect(hint).to.satisfy((value: unknown) => typeof value === "string" || typeof value === "object").and.not.be
        .empty;
      expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([diskCid]);
      expect(await cpi.attachDisk(vmCid, diskCid, newCall()), "again").to.deep.equal(hint);
      await cpi.detachDisk(vmCid, diskCid, newCall());
      expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([]);
      expect(await reasonOfFailed(cpi.detachDisk(vmCid, diskCid, newCall()))).to.equal("DISK_NOT_ATTACHED");
    });

    it("attach_disk to a second VM fails until it is detached from the first", async () => {
      const [first, second, diskCid] = [await createVm(), await createVm(), await createDisk()];
      await cpi.attachDisk(first, diskCid, newCall());
      expect(await reasonOfFailed(cpi.attachDisk(second, diskCid, newCall()))).to.equal("INVALID_STATE");
      expect(await reasonOfFailed(cpi.detachDisk(second, diskCid, newCall()))).to.equal("DISK_NOT_ATTACHED");
      expect(await cpi.getDisks(first, newCall())).to.deep.equal([diskCid]);
      await cpi.detachDisk(first, diskCid, newCall());
      await cpi.attachDisk(second, diskCid, newCall());
      expect(await cpi.getDisks(second, newCall())).to.deep.equal([diskCid]);
    });

    it("delete_disk of an attached disk fails, and leaves it attached", async () => {
      const [vmCid, diskCid] = [await createVm(), await createDisk()];
      await cpi.attachDisk(vmCid, diskCid, newCall());
      expect(await reasonOfFailed(cpi.deleteDisk(diskCid, newCall()))).to.equal("INVALID_STATE");
      expect(await cpi.getDisks(vmCid, newCall())).to.deep.equal([diskCid]);
    });

    it("delete_vm detaches its disks, which stay", async () => {
      const [vmCid, other] = [await createVm(), await createVm()];
      const disks = [await createDisk(), await createDisk()];
      for (const diskCid of disks) await cpi.attachDisk(vmCid, diskCid, newCall());
      await cpi.deleteVm(vmCid, newCall());
      for (const diskCid of disks) await cpi.attachDisk(other, diskCid, newCall());
      expect([...(await cpi.getDisks(other, newCall()))].sort()).to.deep.equal(disks.sort());
    });

    it("a VM or a disk that never was is named by the error's reason", async () => {
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

    it("set_disk_metadata takes values of any kind, again and again", async () => {
      const diskCid = await createDisk();
      await cpi.setDiskMetadata(diskCid, { deployment: "d", index: 1, tags: { a: null } }, newCall());
      await cpi.setDiskMetadata(diskCid, {}, newCall());
    });

    it("a call that was given up does nothing", async () => {
      const token = randomUUID();
      const call = { ...newCall(), signal: AbortSignal.abort(new Error("given up")) };
      expect(await reasonOfFailed(cpi.createDisk(newDisk({ token }), call))).to.equal("CANCELLED");
      expect(await cpi.hasDisk(`disk-${token}`, newCall())).to.equal(false);
    });
  });
}

/** Why a call failed, as callers on the wire read it. */
export async function reasonOfFailed(failing: Promise<unknown>): Promise<string> {
  try {
    await failing;
  } catch (error) {
    return reasonOf(error as Error);
  }
  throw new Error("the call did not fail");
}

function ignoreReason(reason: string): (error: Error) => void {
  return (error) => {
    if (reasonOf(error) !== reason) throw error;
  };
}
