import { randomUUID } from "node:crypto";
import { CancelledError, InvalidArgumentError, InvalidStateError, NotImplementedError } from "@diskmesh/domain";
import type { Cpi, CpiCall, CpiInfo, JsonObject, NewDisk, NewStemcell, NewVm, Vm } from "../cpi.js";
import { DiskNotAttachedError, DiskNotFoundError, NoDiskSpaceError, VmNotFoundError } from "../model/errors.js";

const CAPACITY_MIB = 1_024;

/** A CPI whose infrastructure is this process's memory: the contract's own yardstick, and what handler tests call. */
export class MemoryCpi implements Cpi {
  readonly #vms = new Map<string, Vm>();
  /** The VM that each disk is attached to, if any. */
  readonly #disks = new Map<string, string | undefined>();
  readonly #stemcells = new Set<string>();
  readonly #calls: CpiCall[] = [];

  get calls(): readonly CpiCall[] {
    return this.#calls;
  }

  async info(): Promise<CpiInfo> {
    return { apiVersion: 2, stemcellFormats: ["memory"], findsByToken: true };
  }

  async createVm(vm: NewVm, call: CpiCall): Promise<Vm> {
    this.#begin(call);
    const { agentId, networks } = vm;
    const made = { vmCid: `vm-${agentId}`, networks, agentId, usesRegistry: false, apiVersion: 2 };
    this.#vms.set(made.vmCid, made);
    return made;
  }

  async deleteVm(vmCid: string, call: CpiCall): Promise<void> {
    this.#begin(call);
    this.#requireVm(vmCid);
    for (const [diskCid, holder] of this.#disks) if (holder === vmCid) this.#disks.set(diskCid, undefined);
    this.#vms.delete(vmCid);
  }

  async hasVm(vmCid: string, call: CpiCall): Promise<boolean> {
    this.#begin(call);
    return this.#vms.has(vmCid);
  }

  async createDisk(disk: NewDisk, call: CpiCall): Promise<string> {
    this.#begin(call);
    if (disk.vmCid !== "") this.#requireVm(disk.vmCid);
    if (!(disk.sizeMib > 0 && disk.sizeMib <= 2 ** 32)) throw new InvalidArgumentError("size_mib is out of range");
    if (disk.sizeMib > CAPACITY_MIB) throw new NoDiskSpaceError("the disk does not fit");
    const diskCid = `disk-${disk.token || randomUUID()}`;
    if (!this.#disks.has(diskCid)) this.#disks.set(diskCid, undefined);
    return diskCid;
  }

  async deleteDisk(diskCid: string, call: CpiCall): Promise<void> {
    this.#begin(call);
    if (this.#holderOf(diskCid) !== undefined) throw new InvalidStateError(`disk ${diskCid} is attached`);
    this.#disks.delete(diskCid);
  }

  async hasDisk(diskCid: string, call: CpiCall): Promise<boolean> {
    this.#begin(call);
    return this.#disks.has(diskCid);
  }

  async attachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<unknown> {
    this.#begin(call);
    this.#requireVm(vmCid);
    const holder = this.#holderOf(diskCid) ?? vmCid;
    if (holder !== vmCid) throw new InvalidStateError(`disk ${diskCid} is attached to ${holder}`);
    this.#disks.set(diskCid, vmCid);
    return { path: `/memory/${diskCid}`, lun: 3 };
  }

  async detachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<void> {
    this.#begin(call);
    this.#requireVm(vmCid);
    if (this.#holderOf(diskCid) !== vmCid) throw new DiskNotAttachedError(diskCid, vmCid);
    this.#disks.set(diskCid, undefined);
  }

  async getDisks(vmCid: string, call: CpiCall): Promise<readonly string[]> {
    this.#begin(call);
    this.#requireVm(vmCid);
    return [...this.#disks].filter(([, holder]) => holder === vmCid).map(([diskCid]) => diskCid);
  }

  async setDiskMetadata(diskCid: string, _metadata: object, call: CpiCall): Promise<void> {
    this.#begin(call);
    this.#holderOf(diskCid);
  }

  async createStemcell(_stemcell: NewStemcell, call: CpiCall): Promise<string> {
    this.#begin(call);
    const stemcellCid = `stemcell-${randomUUID()}`;
    this.#stemcells.add(stemcellCid);
    return stemcellCid;
  }

  async deleteStemcell(stemcellCid: string, call: CpiCall): Promise<void> {
    this.#begin(call);
    this.#stemcells.delete(stemcellCid);
  }

  async rebootVm(vmCid: string, call: CpiCall): Promise<void> {
    this.#begin(call);
    this.#requireVm(vmCid);
  }

  async setVmMetadata(vmCid: string, _metadata: object, call: CpiCall): Promise<void> {
    this.#begin(call);
    this.#requireVm(vmCid);
  }

  async resizeDisk(diskCid: string, sizeMib: number, call: CpiCall): Promise<void> {
    this.#begin(call);
    if (this.#holderOf(diskCid) !== undefined) throw new InvalidStateError(`disk ${diskCid} is attached`);
    if (sizeMib > CAPACITY_MIB) throw new NoDiskSpaceError("the disk does not fit");
  }

  async updateDisk(): Promise<string> {
    throw new NotImplementedError("disks in memory have no properties");
  }

  async snapshotDisk(): Promise<string> {
    throw new NotImplementedError("disks in memory hold nothing");
  }

  async deleteSnapshot(): Promise<void> {
    throw new NotImplementedError("there are no snapshots");
  }

  async calculateVmCloudProperties(): Promise<JsonObject> {
    throw new NotImplementedError("VMs in memory have no properties");
  }

  #begin(call: CpiCall): void {
    if (call.signal.aborted) throw new CancelledError("given up");
    this.#calls.push(call);
  }

  #requireVm(vmCid: string): void {
    if (!this.#vms.has(vmCid)) throw new VmNotFoundError(vmCid);
  }

  #holderOf(diskCid: string): string | undefined {
    if (!this.#disks.has(diskCid)) throw new DiskNotFoundError(diskCid);
    return this.#disks.get(diskCid);
  }
}
