import { randomUUID } from "node:crypto";
import { existsSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { CpiError, cloudError, type Request, usesRegistry } from "./protocol.js";
import { changeSettings, deleteSettings, putSettings } from "./registry-settings.js";
import { State } from "./state.js";
import { isOn, powerOff, powerOn, prepareVm } from "./vm-process.js";

type Method = (request: Request) => unknown;

const MIB = 1024 * 1024;
const DEFAULT_CAPACITY_MB = 1024 * 1024;

const stateOf = (request: Request): State => new State(request.context.state_folder);
const speaks = (request: Request): number => request.context.speaks_api_version ?? 2;

export const methods: Readonly<Record<string, Method>> = {
  info(request) {
    if (speaks(request) < 2) throw new CpiError("InvalidCall", "Method is not known, got 'info'");
    return { api_version: speaks(request), stemcell_formats: request.context.stemcell_formats ?? [] };
  },

  create_stemcell(request) {
    const [imagePath, properties, env] = request.arguments as [string, object, object?];
    if ((env !== undefined) !== (request.api_version ?? 1) >= 3)
      throw cloudError("CloudError", "create_stemcell has a third argument in version 3, and only there");
    if (!existsSync(imagePath)) throw cloudError("CloudError", `there is no image ${imagePath}`);
    const stemcellCid = `sc-${randomUUID()}`;
    stateOf(request).stemcells.put(stemcellCid, { properties, env });
    return stemcellCid;
  },

  delete_stemcell(request) {
    stateOf(request).stemcells.delete(String(request.arguments[0]));
  },

  async create_vm(request) {
    const [agentId, stemcellCid, , networks] = request.arguments as [string, string, object, object];
    const state = stateOf(request);
    state.stemcells.get(stemcellCid);
    // After a kill, a repeated request continues with the VM of the same agent id; no two VMs may have the same one.
    const [begun] = state.vms.all().find(([, vm]) => vm.agentId === agentId) ?? [];
    const vmCid = begun ?? `i-${randomUUID()}`;
    if (begun === undefined) state.vms.put(vmCid, { agentId, metadata: {} });
    const { settings, viaRegistry } = prepareVm(request, state, vmCid);
    if (viaRegistry) await putSettings(request, vmCid, settings);
    await powerOn(state.vmFolder(vmCid));
    return (request.api_version ?? 1) < 2 ? vmCid : [vmCid, networks];
  },

  async delete_vm(request) {
    const [vmCid] = request.arguments as [string];
    const state = stateOf(request);
    state.vms.get(vmCid);
    await powerOff(state.vmFolder(vmCid));
    for (const [diskCid, holder] of state.attachments.all()) if (holder === vmCid) state.attachments.delete(diskCid);
    if (usesRegistry(request) && request.context.registry) await deleteSettings(request, vmCid);
    rmSync(state.vmFolder(vmCid), { recursive: true, force: true });
    // Deletes the record last, so that an interrupted deletion can be repeated.
    state.vms.delete(vmCid);
  },

  /** Returns false for a VM whose processes have ended, because nothing would restart them. */
  has_vm(request) {
    const vmCid = String(request.arguments[0]);
    const state = stateOf(request);
    return state.vms.find(vmCid) !== undefined && isOn(state.vmFolder(vmCid));
  },

  async reboot_vm(request) {
    const vmCid = String(request.arguments[0]);
    const state = stateOf(request);
    state.vms.get(vmCid);
    await powerOff(state.vmFolder(vmCid));
    await powerOn(state.vmFolder(vmCid));
  },

  set_vm_metadata(request) {
    const [vmCid, metadata] = request.arguments as [string, object];
    const { vms } = stateOf(request);
    vms.put(vmCid, { ...vms.get(vmCid), metadata });
  },

  create_disk(request) {
    const [sizeMb, , vmCid] = request.arguments as [number, object, string | null];
    const state = stateOf(request);
    if (vmCid !== null) state.vms.get(vmCid);
    requireRoom(request, state, sizeMb);
    const diskCid = `vol-${randomUUID()}`;
    writeFileSync(state.imageFile(diskCid), "");
    truncateSync(state.imageFile(diskCid), sizeMb * MIB);
    state.disks.put(diskCid, { sizeMb, metadata: {} });
    return diskCid;
  },

  delete_disk(request) {
    const [diskCid] = request.arguments as [string];
    const state = stateOf(request);
    state.disks.get(diskCid);
    requireDetached(state, diskCid);
    state.disks.delete(diskCid);
    rmSync(state.imageFile(diskCid), { force: true });
  },

  has_disk: (request) => stateOf(request).disks.find(String(request.arguments[0])) !== undefined,

  async attach_disk(request) {
    const [vmCid, diskCid] = request.arguments as [string, string];
    const state = stateOf(request);
    state.vms.get(vmCid);
    state.disks.get(diskCid);
    if (!state.attachments.create(diskCid, vmCid) && state.attachments.find(diskCid) !== vmCid)
      throw cloudError("CloudError", `disk '${diskCid}' is attached to another VM`);
    const path = state.imageFile(diskCid);
    if (usesRegistry(request) && request.context.registry)
      await changeSettings(request, vmCid, (disks) => ({ ...disks, [diskCid]: path }));
    return (request.api_version ?? 1) < 2 ? null : path;
  },

  async detach_disk(request) {
    const [vmCid, diskCid] = request.arguments as [string, string];
    const state = stateOf(request);
    state.vms.get(vmCid);
    state.disks.get(diskCid);
    if (state.attachments.find(diskCid) !== vmCid)
      throw cloudError("DiskNotAttached", `disk '${diskCid}' is not attached to '${vmCid}'`, true);
    if (usesRegistry(request) && request.context.registry)
      await changeSettings(request, vmCid, ({ [diskCid]: _, ...others }) => others);
    state.attachments.delete(diskCid);
  },

  get_disks(request) {
    const [vmCid] = request.arguments as [string];
    const state = stateOf(request);
    state.vms.get(vmCid);
    return state.attachments.all().flatMap(([diskCid, holder]) => (holder === vmCid ? [diskCid] : []));
  },

  set_disk_metadata(request) {
    const [diskCid, metadata] = request.arguments as [string, object];
    const { disks } = stateOf(request);
    disks.put(diskCid, { ...disks.get(diskCid), metadata });
  },

  resize_disk(request) {
    const [diskCid, sizeMb] = request.arguments as [string, number];
    const state = stateOf(request);
    const disk = state.disks.get(diskCid);
    if (sizeMb < disk.sizeMb) throw cloudError("NotSupported", `disk '${diskCid}' cannot shrink`);
    requireDetached(state, diskCid);
    requireRoom(request, state, sizeMb - disk.sizeMb);
    truncateSync(state.imageFile(diskCid), sizeMb * MIB);
    state.disks.put(diskCid, { ...disk, sizeMb });
  },

  update_disk(request) {
    methods.resize_disk?.(request);
    return null;
  },

  snapshot_disk(request) {
    const [diskCid, metadata] = request.arguments as [string, object];
    const state = stateOf(request);
    state.disks.get(diskCid);
    const snapshotCid = `snap-${randomUUID()}`;
    state.snapshots.put(snapshotCid, { diskCid, metadata });
    return snapshotCid;
  },

  delete_snapshot(request) {
    stateOf(request).snapshots.delete(String(request.arguments[0]));
  },

  calculate_vm_cloud_properties(request) {
    const [{ ram, cpu }] = request.arguments as [{ ram: number; cpu: number }];
    return { instance_type: `cpu${cpu}-ram${ram}` };
  },
};

function requireDetached(state: State, diskCid: string): void {
  if (state.attachments.find(diskCid) === undefined) return;
  throw cloudError("CloudError", `disk '${diskCid}' is attached`);
}

function requireRoom(request: Request, state: State, sizeMb: number): void {
  const usedMb = state.disks.all().reduce((sum, [, disk]) => sum + disk.sizeMb, 0);
  const capacityMb = request.context.capacity_mb ?? DEFAULT_CAPACITY_MB;
  if (usedMb + sizeMb > capacityMb) throw cloudError("NoDiskSpace", `${sizeMb} MiB do not fit beside ${usedMb}`, true);
}
