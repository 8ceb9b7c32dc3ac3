import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  CancelledError,
  InvalidArgumentError,
  InvalidStateError,
  type IoLimits,
  type JsonObject,
  MIB_BYTES,
  NotFoundError,
  NotImplementedError,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import { usesBoshRegistry } from "../bosh-registry.js";
import { hostOfCid } from "../cid.js";
import type {
  AttachOptions,
  Capacity,
  Cpi,
  CpiCall,
  CpiInfo,
  FoundVm,
  MadeDisk,
  NewDisk,
  NewStemcell,
  NewVm,
  Vm,
  VmPage,
  WantedPage,
} from "../cpi.js";
import { DiskNotAttachedError, DiskNotFoundError, NoDiskSpaceError, VmNotFoundError } from "../errors.js";
import { MemoryCloud, type MemoryDisk, type MemoryVm } from "./memory-cloud.js";

/** Optional methods that MemoryCpi has, for the contract tests. */
export const OPTIONAL_IN_MEMORY = [
  "stemcells",
  "list_vms",
  "reboot_vm",
  "set_vm_metadata",
  "resize_disk",
  "update_disk",
  "snapshots",
] as const;

const MAX_SIZE_MIB = 2 ** 32;

/** A CPI whose infrastructure is a MemoryCloud. It passes the contract tests. */
export class MemoryCpi implements Cpi {
  readonly calls: CpiCall[] = [];
  readonly #names: readonly string[];

  constructor(
    readonly cloud = new MemoryCloud(),
    /** Present and former names limit the CPI to objects that were created under them. */
    readonly name = "",
    formerNames: readonly string[] = [],
  ) {
    this.#names = [name, ...formerNames];
  }

  info(call: CpiCall): Promise<CpiInfo> {
    return this.#run("info", call, () => ({
      apiVersion: this.#apiVersion,
      stemcellFormats: this.cloud.formats.get(this.name) ?? [],
      findsByToken: this.cloud.findsByToken,
      needsVmSpec: this.cloud.needsVmSpec,
    }));
  }

  createVm(vm: NewVm, call: CpiCall): Promise<Vm> {
    const vmCid = this.cloud.cidsToGive.get("createVm") ?? `vm-${vm.agentId}${this.#another()}`;
    return this.#act("createVm", vmCid, call, () => {
      const agentId = this.cloud.vms.get(vmCid)?.agentId ?? this.#freeAgent(vm);
      this.cloud.vms.set(vmCid, { vmCid, agentId, cpi: this.name, request: vm, metadata: {} });
      const usesRegistry = this.#usesRegistry(call);
      return { vmCid, networks: vm.networks, agentId, usesRegistry, apiVersion: this.#apiVersion };
    });
  }

  deleteVm(vmCid: string, call: CpiCall): Promise<void> {
    return this.#act("deleteVm", vmCid, call, () => {
      this.#vm(vmCid);
      for (const disk of this.cloud.disks.values()) if (disk.vmCid === vmCid) disk.vmCid = "";
      this.cloud.vms.delete(vmCid);
    });
  }

  hasVm(vmCid: string, call: CpiCall): Promise<FoundVm> {
    return this.#run("hasVm", call, () => {
      const vm = this.#findVm(vmCid);
      return { exists: vm !== undefined, az: hostOfCid(vmCid) === undefined ? "" : (vm?.request.az ?? "") };
    });
  }

  listVms(_page: WantedPage, call: CpiCall): Promise<VmPage> {
    return this.#run("listVms", call, () => {
      const vms = [...this.cloud.vms.values()]
        .filter(({ vmCid, cpi }) => hostOfCid(vmCid) === undefined && this.#names.includes(cpi))
        .map(({ vmCid, request }) => ({ vmCid, agentId: request.agentId }));
      return { vms, nextPageToken: "" };
    });
  }

  rebootVm(vmCid: string, call: CpiCall): Promise<void> {
    return this.#act("rebootVm", vmCid, call, () => void this.#vm(vmCid));
  }

  setVmMetadata(vmCid: string, metadata: JsonObject, call: CpiCall): Promise<void> {
    return this.#act("setVmMetadata", vmCid, call, () => {
      this.#vm(vmCid).metadata = metadata;
    });
  }

  createDisk({ sizeMib, cloudProperties, vmCid: near, token }: NewDisk, call: CpiCall): Promise<MadeDisk> {
    const diskCid = this.cloud.cidsToGive.get("createDisk") ?? `disk-${token || randomUUID()}${this.#another()}`;
    return this.#act("createDisk", diskCid, call, () => {
      this.cloud.nearVms.push(near);
      if (near !== "") this.#vm(near);
      if (!(sizeMib > 0 && sizeMib <= MAX_SIZE_MIB)) throw new InvalidArgumentError("size_mib is out of range");
      const existing = this.cloud.disks.get(diskCid);
      if (existing !== undefined) return { diskCid, sizeBytes: this.#sizeBytesOf(existing) };
      this.#requireRoom(sizeMib);
      const unattached = { vmCid: "", readOnly: false, limits: undefined, metadata: {} };
      const disk = { diskCid, cpi: this.name, sizeMib, cloudProperties, ...unattached };
      this.cloud.disks.set(diskCid, disk);
      return { diskCid, sizeBytes: this.#sizeBytesOf(disk) };
    });
  }

  #sizeBytesOf({ sizeMib }: { readonly sizeMib: number }): number {
    const { diskUnitMib } = this.cloud;
    return Math.ceil(sizeMib / diskUnitMib) * diskUnitMib * MIB_BYTES;
  }

  deleteDisk(diskCid: string, call: CpiCall): Promise<void> {
    return this.#act("deleteDisk", diskCid, call, () => {
      this.#detachedDisk(diskCid);
      this.cloud.disks.delete(diskCid);
    });
  }

  hasDisk(diskCid: string, call: CpiCall): Promise<boolean> {
    return this.#run("hasDisk", call, () => this.#findDisk(diskCid) !== undefined);
  }

  attachDisk(vmCid: string, diskCid: string, call: CpiCall, options?: AttachOptions): Promise<unknown> {
    return this.#act("attachDisk", diskCid, call, () => {
      const disk = this.#disk(diskCid);
      this.#vm(vmCid);
      if (disk.vmCid !== "" && disk.vmCid !== vmCid)
        throw new InvalidStateError(`${diskCid} is attached to ${disk.vmCid}`);
      disk.vmCid = vmCid;
      disk.readOnly = options?.readOnly ?? false;
      return this.#usesRegistry(call) ? undefined : { path: `/memory/${diskCid}`, lun: 3 };
    });
  }

  detachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<void> {
    return this.#act("detachDisk", diskCid, call, () => {
      const disk = this.#disk(diskCid);
      this.#vm(vmCid);
      if (disk.vmCid !== vmCid) throw new DiskNotAttachedError(diskCid, vmCid);
      disk.vmCid = "";
    });
  }

  getDisks(vmCid: string, call: CpiCall): Promise<readonly string[]> {
    return this.#run("getDisks", call, () => {
      this.#vm(vmCid);
      return [...this.cloud.disks.values()].filter((disk) => disk.vmCid === vmCid).map(({ diskCid }) => diskCid);
    });
  }

  setDiskMetadata(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<void> {
    return this.#act("setDiskMetadata", diskCid, call, () => {
      this.#disk(diskCid).metadata = metadata;
    });
  }

  resizeDisk(diskCid: string, sizeMib: number, call: CpiCall): Promise<number> {
    return this.#act("resizeDisk", diskCid, call, () => {
      const disk = this.cloud.resizesAttached ? this.#disk(diskCid) : this.#detachedDisk(diskCid);
      this.#requireRoom(sizeMib - disk.sizeMib);
      disk.sizeMib = sizeMib;
      return this.#sizeBytesOf(disk);
    });
  }

  setDiskLimits(diskCid: string, limits: IoLimits | undefined, call: CpiCall): Promise<void> {
    return this.#act("setDiskLimits", diskCid, call, () => {
      this.#disk(diskCid).limits = limits;
    });
  }

  getCapacity(_az: string, _cloudProperties: JsonObject, call: CpiCall): Promise<Capacity> {
    return this.#run("getCapacity", call, () => {
      const [totalMib, usedMib] = [this.cloud.capacityMib, this.#usedMib()];
      const freeBytes = (totalMib - usedMib) * MIB_BYTES;
      return { totalBytes: totalMib * MIB_BYTES, freeBytes, maxDiskBytes: freeBytes };
    });
  }

  /** Returns a new CID, as CPIs do that copy the content to a new disk. */
  updateDisk(diskCid: string, sizeMib: number, cloudProperties: JsonObject, call: CpiCall): Promise<string> {
    return this.#act("updateDisk", diskCid, call, () => {
      const disk = this.#detachedDisk(diskCid);
      const updatedCid = this.cloud.cidsToGive.get("updateDisk") ?? `${diskCid}u`;
      const updated = { ...disk, diskCid: updatedCid, sizeMib, cloudProperties };
      this.cloud.disks.delete(diskCid);
      this.cloud.disks.set(updated.diskCid, updated);
      return updated.diskCid;
    });
  }

  createStemcell({ imagePath }: NewStemcell, call: CpiCall): Promise<string> {
    return this.#act("createStemcell", this.name, call, () => {
      const { withoutStemcells, brokenCpis, stemcells } = this.cloud;
      if (withoutStemcells.has(this.name)) throw new NotImplementedError(`CPI ${this.name} needs no stemcells`);
      if (brokenCpis.has(this.name)) throw new InvalidStateError(`${this.name} is broken`);
      const stemcellCid = `sc-${stemcells.size + 1}-${this.name}`;
      stemcells.set(stemcellCid, { cpi: this.name, image: readFileSync(imagePath, "utf8") });
      return stemcellCid;
    });
  }

  deleteStemcell(stemcellCid: string, call: CpiCall): Promise<void> {
    return this.#act("deleteStemcell", stemcellCid, call, () => {
      if (!this.cloud.stemcells.delete(stemcellCid)) throw new NotFoundError(`there is no stemcell ${stemcellCid}`);
    });
  }

  snapshotDisk(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<string> {
    return this.#act("snapshotDisk", diskCid, call, () => {
      this.#disk(diskCid);
      const snapshotCid = this.cloud.cidsToGive.get("snapshotDisk") ?? `snap-${randomUUID()}`;
      this.cloud.snapshots.set(snapshotCid, { diskCid, metadata });
      return snapshotCid;
    });
  }

  deleteSnapshot(snapshotCid: string, call: CpiCall): Promise<void> {
    return this.#act("deleteSnapshot", snapshotCid, call, () => {
      if (!this.cloud.snapshots.delete(snapshotCid)) throw new NotFoundError(`there is no snapshot ${snapshotCid}`);
    });
  }

  async calculateVmCloudProperties(): Promise<JsonObject> {
    throw new NotImplementedError("VMs in memory have no properties");
  }

  get #apiVersion(): number {
    return this.cloud.apiVersions.get(this.name) ?? 2;
  }

  #usesRegistry(call: CpiCall): boolean {
    return usesBoshRegistry(this.#apiVersion, call.stemcellApiVersion);
  }

  /** Returns a suffix that keeps CIDs unique when a repeated call makes another object. */
  #another(): string {
    return this.cloud.findsByToken ? "" : `-${randomUUID().slice(0, 8)}`;
  }

  #freeAgent(vm: NewVm): string {
    const { hostIds, vms } = this.cloud;
    if (hostIds.length === 0) return vm.agentId;
    const free = hostIds.find((hostId) => ![...vms.values()].some(({ agentId }) => agentId === hostId));
    if (free === undefined) throw new ResourceExhaustedError(`no host is free in az ${vm.az}`);
    return free;
  }

  #requireRoom(sizeMib: number): void {
    if (this.#usedMib() + sizeMib > this.cloud.capacityMib) throw new NoDiskSpaceError("there is no space left");
  }

  #usedMib(): number {
    return [...this.cloud.disks.values()].reduce((sum, disk) => sum + disk.sizeMib, 0);
  }

  /** Runs a call with an effect, and records it as "<method> <about>". */
  #act<Result>(method: keyof Cpi, about: string, call: CpiCall, effect: () => Result): Promise<Result> {
    return this.#run(method, call, () => {
      const result = effect();
      this.cloud.calls.push(`${method} ${about}`);
      return result;
    });
  }

  async #run<Result>(method: keyof Cpi, call: CpiCall, effect: () => Result): Promise<Result> {
    if (call.signal.aborted) throw new CancelledError("given up");
    this.calls.push(call);
    for (const line of this.cloud.noise) call.onLogLine(line);
    return this.cloud.timed(method, { cpi: this.name, signal: call.signal }, async () => {
      await this.cloud.pass(method, "before", call.signal);
      if (this.cloud.lacking.has(method)) throw new NotImplementedError(`this CPI has no ${method}`);
      const result = effect();
      await this.cloud.pass(method, "after", call.signal);
      return result;
    });
  }

  #findVm(vmCid: string): MemoryVm | undefined {
    return [...this.cloud.vms.values()].find((vm) => vm.vmCid === vmCid && this.#names.includes(vm.cpi));
  }

  #vm(vmCid: string): MemoryVm {
    const vm = this.#findVm(vmCid);
    if (!vm) throw new VmNotFoundError(vmCid);
    return vm;
  }

  #findDisk(diskCid: string): MemoryDisk | undefined {
    const disk = this.cloud.disks.get(diskCid);
    return disk && this.#names.includes(disk.cpi) ? disk : undefined;
  }

  #disk(diskCid: string): MemoryDisk {
    const disk = this.#findDisk(diskCid);
    if (!disk) throw new DiskNotFoundError(diskCid);
    return disk;
  }

  #detachedDisk(diskCid: string): MemoryDisk {
    const disk = this.#disk(diskCid);
    if (disk.vmCid !== "") throw new InvalidStateError(`${diskCid} is attached to ${disk.vmCid}`);
    return disk;
  }
}
