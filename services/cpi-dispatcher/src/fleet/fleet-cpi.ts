import { randomUUID } from "node:crypto";
import { type Disk, ExportKind, type Host, OnHostSilence } from "@diskmesh/api/registry";
import {
  type AttachOptions,
  type Capacity,
  type Cpi,
  type CpiCall,
  type CpiInfo,
  cidOfHost,
  DiskNotAttachedError,
  DiskNotFoundError,
  type FoundVm,
  hostOfCid,
  type MadeDisk,
  type NewDisk,
  type NewVm,
  NoDiskSpaceError,
  type Vm,
  VmNotFoundError,
  type VmPage,
  type WantedPage,
} from "@diskmesh/cpi";
import {
  type DiskId,
  InvalidArgumentError,
  InvalidStateError,
  type IoLimits,
  type JsonObject,
  NotFoundError,
  NotImplementedError,
  parseDiskId,
  parseId,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";
import { allPages, type CallOptions } from "@diskmesh/rpc";
import { diskIdOf, labelsOf, parseFleetDiskProperties, sizeBytesOf } from "../model/fleet-disks.js";
import type { RegistryClient } from "./registry-client.js";

const INFO: CpiInfo = { apiVersion: 2, stemcellFormats: [], findsByToken: true, needsVmSpec: false };

const PAGE_SIZE = 100;

/** Name of the registry's pool for devices and disks that name none. */
const DEFAULT_POOL = "default";

const EXPORT_KINDS = { "": ExportKind.UNSPECIFIED, device: ExportKind.DEVICE, nbd: ExportKind.NBD } as const;

const SILENCE_RULES = {
  "": OnHostSilence.UNSPECIFIED,
  keep: OnHostSilence.KEEP,
  fence: OnHostSilence.FENCE,
} as const;

const VM_PREFIX = /^vm-/;

/**
 * The CPI whose VMs are hosts of a disk registry and whose disks are the registry's disks. The CPI is stateless: ids
 * derive from the caller's tokens, so every call can be repeated after a lost answer.
 */
export class FleetCpi implements Cpi {
  readonly #registry: RegistryClient;

  constructor(registry: RegistryClient) {
    this.#registry = registry;
  }

  async info(): Promise<CpiInfo> {
    return INFO;
  }

  async createVm(vm: NewVm, call: CpiCall): Promise<Vm> {
    const vmCid = parseId("vm_cid made of the agent_id", `vm-${vm.agentId}`);
    const diskIds = vm.diskCids.map((diskCid) => parseDiskId(diskCid, "disk_cids"));
    const { host } = await this.#registry.assignHost({ vmCid, az: vm.az, diskIds }, optionsOf(call));
    if (!host) throw new UnavailableError(`the registry's answer has no host for VM ${vmCid}`, { outcome: "unknown" });
    const { apiVersion } = INFO;
    return { vmCid, networks: vm.networks, agentId: host.hostId, usesRegistry: false, apiVersion };
  }

  async createStemcell(): Promise<string> {
    throw notImplemented("create_stemcell", "its VMs are hosts with their own operating system");
  }

  async deleteStemcell(): Promise<void> {
    throw notImplemented("delete_stemcell", "it creates no stemcells");
  }

  async deleteVm(vmCid: string, call: CpiCall): Promise<void> {
    const host = await this.#hostOf(vmCid, call);
    for (const { diskId } of await this.#disksOf(vmCid, host, call))
      await this.#registry.unpublishDisk({ diskId, vmCid }, optionsOf(call));
    await this.#registry.unassignHost({ vmCid }, optionsOf(call));
  }

  async hasVm(vmCid: string, call: CpiCall): Promise<FoundVm> {
    const host = await this.#findHost(vmCid, call);
    return { exists: host !== undefined, az: host?.az ?? "" };
  }

  async listVms(page: WantedPage, call: CpiCall): Promise<VmPage> {
    const { hosts, nextPageToken } = await this.#registry.listHosts({ ...page }, optionsOf(call));
    const vms = hosts.flatMap(({ assignment }) =>
      assignment === undefined ? [] : { vmCid: assignment.vmCid, agentId: assignment.vmCid.replace(VM_PREFIX, "") },
    );
    return { vms, nextPageToken };
  }

  async rebootVm(vmCid: string, call: CpiCall): Promise<void> {
    await this.#hostOf(vmCid, call);
    throw notImplemented("reboot_vm", "a host may hold devices of other VMs' disks");
  }

  async setVmMetadata(vmCid: string, _metadata: JsonObject, call: CpiCall): Promise<void> {
    await this.#hostOf(vmCid, call);
    throw notImplemented("set_vm_metadata", "the registry stores no metadata of hosts");
  }

  async createDisk(disk: NewDisk, call: CpiCall): Promise<MadeDisk> {
    const { pool, spreadRacks, ...properties } = parseFleetDiskProperties(disk.cloudProperties);
    const sizeBytes = sizeBytesOf(disk.sizeMib);
    const diskId = diskIdOf(disk.token === "" ? randomUUID() : disk.token);
    const { az, nearHostId } = await this.#placeOf(disk, call);
    const { limits, labels, exportKind, onHostSilence } = properties;
    const served = {
      limits,
      labels: [...labels],
      exportKind: EXPORT_KINDS[exportKind],
      onHostSilence: SILENCE_RULES[onHostSilence],
    };
    const request = { diskId, sizeBytes, az, pool, spreadRacks, nearHostId, ...served };
    const made = await asNoDiskSpace(diskId, () => this.#registry.createDisk(request, optionsOf(call)));
    return { diskCid: diskId, sizeBytes: made.disk?.sizeBytes ?? 0 };
  }

  async deleteDisk(diskCid: string, call: CpiCall): Promise<void> {
    const { diskId } = await this.#disk(diskCid, call);
    await this.#registry.deleteDisk({ diskId }, optionsOf(call));
  }

  async hasDisk(diskCid: string, call: CpiCall): Promise<boolean> {
    try {
      await this.#disk(diskCid, call);
      return true;
    } catch (error) {
      if (error instanceof DiskNotFoundError) return false;
      throw error;
    }
  }

  async attachDisk(vmCid: string, diskCid: string, call: CpiCall, options?: AttachOptions): Promise<unknown> {
    const request = { diskId: this.#ownId(diskCid), ...placeOf(vmCid), ...options };
    const publish = () => this.#registry.publishDisk(request, optionsOf(call));
    const { disk } = await asDiskNotFound(diskCid, () => asVmNotFound(vmCid, publish));
    const path = disk?.publication?.exportPath;
    if (!path)
      throw new UnavailableError(
        `the registry published disk ${diskCid} for VM ${vmCid} but its answer has no export path`,
        {
          outcome: "unknown",
        },
      );
    return { path };
  }

  async detachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<void> {
    const request = { diskId: this.#ownId(diskCid), ...placeOf(vmCid) };
    const unpublish = () => this.#registry.unpublishDisk(request, optionsOf(call));
    try {
      await asDiskNotFound(diskCid, () => asVmNotFound(vmCid, unpublish));
    } catch (error) {
      // The registry names the VM in the error only when the disk is not attached to it. A host has no such error, because
      // UnpublishDisk leaves a disk alone that is published to another host.
      if (error instanceof InvalidStateError && error.about.vm_cid === vmCid)
        throw new DiskNotAttachedError(diskCid, vmCid);
      throw error;
    }
  }

  async getDisks(vmCid: string, call: CpiCall): Promise<readonly string[]> {
    const host = await this.#hostOf(vmCid, call);
    return (await this.#disksOf(vmCid, host, call)).map((disk) => disk.diskId);
  }

  async setDiskMetadata(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<void> {
    const request = { diskId: this.#ownId(diskCid), labels: labelsOf(metadata) };
    await asDiskNotFound(diskCid, () => this.#registry.setDiskLabels(request, optionsOf(call)));
  }

  async resizeDisk(diskCid: string, sizeMib: number, call: CpiCall): Promise<number> {
    const diskId = this.#ownId(diskCid);
    const request = { diskId, sizeBytes: sizeBytesOf(sizeMib) };
    const resize = () => this.#registry.resizeDisk(request, optionsOf(call));
    const { disk } = await asDiskNotFound(diskCid, () => asNoDiskSpace(diskId, resize));
    return disk?.sizeBytes ?? 0;
  }

  async setDiskLimits(diskCid: string, limits: IoLimits | undefined, call: CpiCall): Promise<void> {
    const request = { diskId: this.#ownId(diskCid), limits };
    await asDiskNotFound(diskCid, () => this.#registry.setDiskLimits(request, optionsOf(call)));
  }

  async getCapacity(az: string, cloudProperties: JsonObject, call: CpiCall): Promise<Capacity> {
    if (az === "")
      throw new InvalidArgumentError("az is empty: give the az of the disks", { about: { field: "context.az" } });
    const { pool } = parseFleetDiskProperties(cloudProperties);
    const { pools } = await this.#registry.getCapacity({ az, pool: pool || DEFAULT_POOL }, optionsOf(call));
    const { totalBytes = 0, freeBytes = 0, maxDiskBytes = 0 } = pools[0] ?? {};
    return { totalBytes, freeBytes, maxDiskBytes };
  }

  async updateDisk(): Promise<string> {
    throw notImplemented("update_disk", "a disk stays in its pool; resize_disk makes it larger");
  }

  async snapshotDisk(): Promise<string> {
    throw notImplemented("snapshot_disk", "disks of the registry cannot be copied");
  }

  async deleteSnapshot(): Promise<void> {
    throw notImplemented("delete_snapshot", "it creates no snapshots");
  }

  async calculateVmCloudProperties(): Promise<JsonObject> {
    throw notImplemented("calculate_vm_cloud_properties", "the size of a host is fixed");
  }

  /** Returns the placement of a disk: the AZ and host of its VM, otherwise the requested AZ. */
  async #placeOf(disk: NewDisk, call: CpiCall): Promise<{ readonly az: string; readonly nearHostId: string }> {
    const { vmCid, az } = disk;
    if (vmCid === "" && az === "")
      throw new InvalidArgumentError("vm_cid and az are both empty: a disk needs an az", { about: { field: "az" } });
    if (vmCid === "") return { az, nearHostId: "" };
    const host = await this.#hostOf(vmCid, call);
    if (az !== "" && az !== host.az)
      throw new InvalidArgumentError(`the disk is wanted in az ${az}, but VM ${vmCid} is in az ${host.az}`, {
        about: { field: "az" },
      });
    return { az: host.az, nearHostId: host.hostId };
  }

  async #hostOf(vmCid: string, call: CpiCall): Promise<Host> {
    const host = await this.#findHost(vmCid, call);
    if (!host) throw new VmNotFoundError(vmCid);
    return host;
  }

  /** Returns the host of a VM, or the host itself for its own CID. */
  async #findHost(vmCid: string, call: CpiCall): Promise<Host | undefined> {
    const hostId = hostOfCid(vmCid);
    if (hostId !== undefined) return this.#hostById(hostId, call);
    const id = idOrNone(() => parseId("vm_cid", vmCid));
    if (id === undefined) return undefined;
    let pageToken = "";
    do {
      // A page may be empty although a later page is not.
      const request = { vmCid: id, pageSize: 1, pageToken };
      const page = await this.#registry.listHosts(request, optionsOf(call));
      const host = page.hosts.find((found) => found.assignment?.vmCid === vmCid);
      if (host) return host;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return undefined;
  }

  async #hostById(hostId: string, call: CpiCall): Promise<Host | undefined> {
    try {
      return (await this.#registry.getHost({ hostId }, optionsOf(call))).host;
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  async #disk(diskCid: string, call: CpiCall): Promise<Disk> {
    const request = { diskId: this.#ownId(diskCid) };
    const { disk } = await asDiskNotFound(diskCid, () => this.#registry.getDisk(request, optionsOf(call)));
    if (!disk) throw new DiskNotFoundError(diskCid);
    return disk;
  }

  #ownId(diskCid: string): DiskId {
    const diskId = idOrNone(() => parseDiskId(diskCid, "disk_cid"));
    if (diskId === undefined) throw new DiskNotFoundError(diskCid);
    return diskId;
  }

  /** Returns the disks that are published for the VM. The host may have others, which were attached to it directly. */
  #disksOf(vmCid: string, { hostId }: Host, call: CpiCall): Promise<Disk[]> {
    return allPages(async (pageToken) => {
      const request = { hostId, pageSize: PAGE_SIZE, pageToken };
      const { disks, nextPageToken } = await this.#registry.listDisks(request, optionsOf(call));
      return { items: disks.filter(({ publication }) => publication?.vmCid === vmCid), nextPageToken };
    });
  }
}

/** Returns undefined for a malformed id, because an id of another CPI cannot name an object of the registry. */
function idOrNone<Id>(parse: () => Id): Id | undefined {
  try {
    return parse();
  } catch (error) {
    if (error instanceof InvalidArgumentError) return undefined;
    throw error;
  }
}

/** Returns where to publish a disk: a VM's host, or a host for the CID of a host. */
function placeOf(vmCid: string): { readonly vmCid: string } | { readonly hostId: string } {
  const hostId = hostOfCid(vmCid);
  if (hostId !== undefined) return { hostId };
  const id = idOrNone(() => parseId("vm_cid", vmCid));
  if (id === undefined) throw new VmNotFoundError(vmCid);
  return { vmCid: id };
}

function notImplemented(method: string, why: string): NotImplementedError {
  return new NotImplementedError(`the fleet CPI has no ${method}: ${why}`, { about: { cpi_method: method } });
}

async function asNoDiskSpace<Result>(diskId: string, ask: () => Promise<Result>): Promise<Result> {
  try {
    return await ask();
  } catch (error) {
    // The registry names the disk only when space is missing; a limit on calls does not concern disks.
    if (error instanceof ResourceExhaustedError && error.about.disk_id === diskId)
      throw new NoDiskSpaceError(error.message, detailsOf(error, { disk_cid: diskId, pool: error.about.pool ?? "" }));
    throw error;
  }
}

async function asVmNotFound<Result>(vmCid: string, ask: () => Promise<Result>): Promise<Result> {
  try {
    return await ask();
  } catch (error) {
    if (
      error instanceof NotFoundError &&
      (error.about.vm_cid === vmCid || cidOfHost(error.about.host_id ?? "") === vmCid)
    )
      throw new VmNotFoundError(vmCid);
    throw error;
  }
}

async function asDiskNotFound<Result>(diskCid: string, ask: () => Promise<Result>): Promise<Result> {
  try {
    return await ask();
  } catch (error) {
    // A missing host is a different error.
    if (error instanceof NotFoundError && error.about.disk_id !== undefined) throw new DiskNotFoundError(diskCid);
    throw error;
  }
}

function optionsOf(call: CpiCall): CallOptions {
  return { signal: call.signal, deadlineMs: Math.max(1, call.deadlineAtMs - Date.now()), requestId: call.requestId };
}

function detailsOf(error: ResourceExhaustedError, about: Record<string, string>): object {
  return { about, cause: error, ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }) };
}
