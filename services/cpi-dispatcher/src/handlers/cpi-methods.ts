import type { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { parseCid, parseOptionalCid, parseVmOrHostCid } from "@diskmesh/cpi";
import { parseId, parseIoLimits, parseOptionalName } from "@diskmesh/domain";
import type { Handlers, Serve } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
import { stringifiedHint } from "../model/disk-hint.js";
import { parseSizeMib } from "../model/size.js";
import { cpiMethod } from "./cpi-method.js";
import { deletion } from "./deletion.js";

type Service = Handlers<typeof CpiServiceDefinition>;

/** Methods implemented in files of their own. */
type OwnFiles = "createStemcell" | "setCpiConfig" | "watchCpiLog" | "listCpis" | "fence" | "endCalls";

/** The handlers of single CPI calls, with the contract's method name and the conversion of request and answer. */
export const cpiMethods: {
  readonly [Method in Exclude<keyof Service, OwnFiles>]: Serve<DispatcherContext, Service[Method]>;
} = {
  info: cpiMethod("info", async (cpi, _request, call) => {
    const { stemcellFormats, ...info } = await cpi.info(call);
    return { ...info, stemcellFormats: [...stemcellFormats] };
  }),
  createVm: cpiMethod("create_vm", async (cpi, request, call, chosen) => {
    const { cloudProperties, networks, env } = request;
    const vm = {
      agentId: parseId("agent_id", request.agentId),
      stemcellCid: parseOptionalCid("stemcell", request.stemcellCid),
      cloudProperties: cloudProperties ?? {},
      networks: networks ?? {},
      diskCids: request.diskCids.map((diskCid) => parseCid("disk", diskCid, "disk_cids")),
      env: env ?? {},
      az: parseOptionalName("az", request.az) ?? "",
    };
    return { ...(await cpi.createVm(vm, call)), cpi: chosen.recordedName };
  }),
  deleteVm: deletion({
    method: "delete_vm",
    cidOf: ({ vmCid }) => parseCid("vm", vmCid),
    remove: (cpi, cid, call) => cpi.deleteVm(cid, call),
    isThere: async (cpi, cid, call) => (await cpi.hasVm(cid, call)).exists,
  }),
  hasVm: cpiMethod("has_vm", (cpi, request, call) => cpi.hasVm(parseVmOrHostCid(request.vmCid), call)),
  listVms: cpiMethod("list_vms", async (cpi, { pageSize, pageToken }, call) => {
    const { vms, nextPageToken } = await cpi.listVms({ pageSize, pageToken }, call);
    return { vms: [...vms], nextPageToken };
  }),
  rebootVm: cpiMethod("reboot_vm", async (cpi, request, call) => {
    await cpi.rebootVm(parseCid("vm", request.vmCid), call);
    return {};
  }),
  setVmMetadata: cpiMethod("set_vm_metadata", async (cpi, request, call) => {
    await cpi.setVmMetadata(parseCid("vm", request.vmCid), request.metadata ?? {}, call);
    return {};
  }),
  calculateVmCloudProperties: cpiMethod("calculate_vm_cloud_properties", async (cpi, request, call) => ({
    cloudProperties: await cpi.calculateVmCloudProperties(request.desired ?? {}, call),
  })),
  createDisk: cpiMethod("create_disk", async (cpi, request, call, chosen) => {
    const disk = {
      sizeMib: parseSizeMib(request.sizeMib),
      cloudProperties: request.cloudProperties ?? {},
      vmCid: request.vmCid === "" ? "" : parseVmOrHostCid(request.vmCid),
      az: parseOptionalName("az", request.az) ?? "",
      token: request.token === "" ? "" : parseId("token", request.token),
    };
    return { ...(await cpi.createDisk(disk, call)), cpi: chosen.recordedName };
  }),
  deleteDisk: deletion({
    method: "delete_disk",
    cidOf: ({ diskCid }) => parseCid("disk", diskCid),
    remove: (cpi, cid, call) => cpi.deleteDisk(cid, call),
    isThere: (cpi, cid, call) => cpi.hasDisk(cid, call),
  }),
  hasDisk: cpiMethod("has_disk", async (cpi, request, call) => ({
    exists: await cpi.hasDisk(parseCid("disk", request.diskCid), call),
  })),
  attachDisk: cpiMethod("attach_disk", async (cpi, request, call) => {
    const diskCid = parseCid("disk", request.diskCid);
    const { readOnly } = request;
    const hint = await cpi.attachDisk(parseVmOrHostCid(request.vmCid), diskCid, call, { readOnly });
    return { diskHint: hint === undefined ? undefined : stringifiedHint(hint, diskCid) };
  }),
  detachDisk: cpiMethod("detach_disk", async (cpi, request, call) => {
    await cpi.detachDisk(parseVmOrHostCid(request.vmCid), parseCid("disk", request.diskCid), call);
    return {};
  }),
  getDisks: cpiMethod("get_disks", async (cpi, request, call) => ({
    diskCids: [...(await cpi.getDisks(parseCid("vm", request.vmCid), call))],
  })),
  resizeDisk: cpiMethod("resize_disk", async (cpi, request, call) => {
    const diskCid = parseCid("disk", request.diskCid);
    return { sizeBytes: await cpi.resizeDisk(diskCid, parseSizeMib(request.sizeMib), call) };
  }),
  updateDisk: cpiMethod("update_disk", async (cpi, request, call) => {
    const diskCid = parseCid("disk", request.diskCid);
    const properties = request.cloudProperties ?? {};
    return { diskCid: await cpi.updateDisk(diskCid, parseSizeMib(request.sizeMib), properties, call) };
  }),
  setDiskLimits: cpiMethod("set_disk_limits", async (cpi, request, call) => {
    await cpi.setDiskLimits(parseCid("disk", request.diskCid), parseIoLimits(request.limits), call);
    return {};
  }),
  getCapacity: cpiMethod("get_capacity", async (cpi, request, call) => {
    const az = parseOptionalName("context.az", request.context?.az ?? "") ?? "";
    return cpi.getCapacity(az, request.cloudProperties ?? {}, call);
  }),
  setDiskMetadata: cpiMethod("set_disk_metadata", async (cpi, request, call) => {
    await cpi.setDiskMetadata(parseCid("disk", request.diskCid), request.metadata ?? {}, call);
    return {};
  }),
  snapshotDisk: cpiMethod("snapshot_disk", async (cpi, request, call) => ({
    snapshotCid: await cpi.snapshotDisk(parseCid("disk", request.diskCid), request.metadata ?? {}, call),
  })),
  deleteSnapshot: deletion({
    method: "delete_snapshot",
    cidOf: ({ snapshotCid }) => parseCid("snapshot", snapshotCid),
    remove: (cpi, cid, call) => cpi.deleteSnapshot(cid, call),
  }),
  deleteStemcell: cpiMethod("delete_stemcell", async (cpi, request, call) => {
    await cpi.deleteStemcell(parseCid("stemcell", request.stemcellCid), call);
    return {};
  }),
};
