import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { isJsonObject, MIB_BYTES, messageOf } from "@diskmesh/domain";
import { Differs, isRefusal, LeftOut, needed, requireFailure, requireThat, type Step } from "./step.js";

const NEVER = { vm: "vm-never", disk: "disk-never" };
const METADATA = { deployment: "try", index: "0", tags: { a: "b" } };

/** All steps in order. Each uses what the former ones have made. */
export const STEPS: readonly Step[] = [
  {
    title: "info answers its version and stemcell formats",
    run: async ({ cpi, call }) => {
      const { apiVersion, stemcellFormats } = await cpi.info(call());
      return `version ${apiVersion}, formats: ${stemcellFormats.join(", ") || "any"}`;
    },
  },
  {
    title: "has_vm and has_disk answer false for unknown CIDs",
    run: async ({ cpi, call }) => {
      requireThat(!(await cpi.hasVm(NEVER.vm, call())).exists, `has_vm of ${NEVER.vm} answered true`);
      requireThat(!(await cpi.hasDisk(NEVER.disk, call())), `has_disk of ${NEVER.disk} answered true`);
    },
  },
  {
    title: "delete_vm of an unknown VM fails with VMNotFound",
    run: ({ cpi, call }) => requireFailure(cpi.deleteVm(NEVER.vm, call()), "VM_NOT_FOUND", "VMNotFound", "succeeds"),
  },
  {
    title: "delete_disk of an unknown disk fails with DiskNotFound",
    run: ({ cpi, call }) =>
      requireFailure(cpi.deleteDisk(NEVER.disk, call()), "DISK_NOT_FOUND", "DiskNotFound", "succeeds"),
  },
  {
    title: "create_stemcell makes a stemcell",
    run: async ({ cpi, call, objects, made }) => {
      const { image, cid, cloud_properties: cloudProperties } = objects.stemcell;
      if (cid !== undefined) made.stemcellCid = cid;
      if (cid !== undefined) throw new LeftOut("the objects file names a stemcell");
      if (image === undefined) throw new LeftOut("the objects file names no stemcell: give its image or its cid");
      made.stemcellCid = await cpi.createStemcell({ imagePath: image, cloudProperties, tags: {} }, call());
      return made.stemcellCid;
    },
  },
  {
    title: "create_vm makes a VM, which needs no agent",
    run: async ({ cpi, call, objects, made }) => {
      const { needsVmSpec } = await cpi.info(call());
      const stemcellCid = needsVmSpec ? needed("stemcell", made.stemcellCid) : "";
      const { cloud_properties: cloudProperties, networks, env } = objects.vm;
      const vm = { agentId: randomUUID(), stemcellCid, cloudProperties, networks, env, diskCids: [], az: "" };
      made.vmCid = (await cpi.createVm(vm, call())).vmCid;
      return made.vmCid;
    },
  },
  {
    title: "has_vm answers true for the VM",
    run: async ({ cpi, call, made }) =>
      requireThat((await cpi.hasVm(needed("VM", made.vmCid), call())).exists, "it answered false"),
  },
  {
    title: "set_vm_metadata sets it, and the same again",
    isOptional: true,
    run: async ({ cpi, call, made }) => {
      const vmCid = needed("VM", made.vmCid);
      for (let times = 0; times < 2; times++) await cpi.setVmMetadata(vmCid, METADATA, call());
    },
  },
  {
    title: "create_disk makes a disk near the VM, and has_disk answers true for it",
    run: async ({ cpi, call, objects, made }) => {
      const vmCid = needed("VM", made.vmCid);
      const { size_mib: sizeMib, cloud_properties: cloudProperties } = objects.disk;
      const disk = { sizeMib, cloudProperties, vmCid, az: "", token: randomUUID() };
      const { diskCid, sizeBytes } = await cpi.createDisk(disk, call());
      made.diskCid = diskCid;
      requireThat(sizeBytes === 0 || sizeBytes >= sizeMib * MIB_BYTES, `the disk has ${sizeBytes} bytes only`);
      requireThat(await cpi.hasDisk(diskCid, call()), `has_disk of ${diskCid} answered false`);
      return diskCid;
    },
  },
  {
    title: "set_disk_metadata sets it, and the same again",
    isOptional: true,
    run: async ({ cpi, call, made }) => {
      const diskCid = needed("disk", made.diskCid);
      for (let times = 0; times < 2; times++) await cpi.setDiskMetadata(diskCid, METADATA, call());
    },
  },
  {
    title: "resize_disk enlarges the disk",
    isOptional: true,
    run: async ({ cpi, call, objects, made }) => {
      await cpi.resizeDisk(needed("disk", made.diskCid), objects.disk.size_mib + 1_024, call());
    },
  },
  {
    title: "attach_disk answers a hint, by which the agent finds the disk",
    run: async ({ cpi, call, made }) => {
      const [vmCid, diskCid] = [needed("VM", made.vmCid), needed("disk", made.diskCid)];
      const hint = await cpi.attachDisk(vmCid, diskCid, call());
      made.attachment = { vmCid, diskCid, hint };
      if (hint === undefined) return "no hint: the agent gets the disk from the bosh-registry";
      const isHint = (typeof hint === "string" && hint !== "") || (isJsonObject(hint) && Object.keys(hint).length > 0);
      requireThat(isHint, `the hint is ${hintText(hint)}: agents need a text or an object`);
      return hintText(hint);
    },
  },
  {
    title: "attach_disk again answers the same hint, as when its first answer was lost",
    run: async ({ cpi, call, made }) => {
      const { vmCid, diskCid, hint } = needed("attached disk", made.attachment);
      try {
        const again = await cpi.attachDisk(vmCid, diskCid, call());
        requireThat(isDeepStrictEqual(again, hint), `it answered ${hintText(again)}`);
        return undefined;
      } catch (error) {
        if (!isRefusal(error)) throw error;
        return new Differs(`a disk whose first answer was lost is detached first: it failed: ${messageOf(error)}`);
      }
    },
  },
  {
    title: "get_disks lists the disk",
    isOptional: true,
    run: async ({ cpi, call, made }) => {
      const { vmCid, diskCid } = needed("attached disk", made.attachment);
      const listed = await cpi.getDisks(vmCid, call());
      requireThat(listed.includes(diskCid), `it answered ${JSON.stringify(listed)}`);
    },
  },
  {
    title: "attach_disk of an unknown disk fails with DiskNotFound, and to an unknown VM with VMNotFound",
    run: async ({ cpi, call, made }) => {
      const vmCid = needed("VM", made.vmCid);
      const attach = (vm: string, disk: string) => cpi.attachDisk(vm, disk, call());
      const other = "fails otherwise";
      const found = await requireFailure(attach(vmCid, NEVER.disk), "DISK_NOT_FOUND", "DiskNotFound", other);
      const diskCid = needed("disk", made.diskCid);
      return (await requireFailure(attach(NEVER.vm, diskCid), "VM_NOT_FOUND", "VMNotFound", other)) ?? found;
    },
  },
  {
    title: "detach_disk detaches the disk, and again fails with DiskNotAttached",
    run: async ({ cpi, call, made }) => {
      const { vmCid, diskCid } = needed("attached disk", made.attachment);
      await cpi.detachDisk(vmCid, diskCid, call());
      made.attachment = undefined;
      const again = cpi.detachDisk(vmCid, diskCid, call());
      return requireFailure(again, "DISK_NOT_ATTACHED", "DiskNotAttached", "succeeds");
    },
  },
  {
    title: "snapshot_disk makes a snapshot, and delete_snapshot deletes it",
    isOptional: true,
    run: async ({ cpi, call, made }) => {
      made.snapshotCid = await cpi.snapshotDisk(needed("disk", made.diskCid), METADATA, call());
      await cpi.deleteSnapshot(made.snapshotCid, call());
      made.snapshotCid = undefined;
    },
  },
  {
    title: "delete_disk deletes the disk, has_disk answers false, and again it fails with DiskNotFound",
    run: async ({ cpi, call, made }) => {
      const diskCid = needed("disk", made.diskCid);
      await cpi.deleteDisk(diskCid, call());
      requireThat(!(await cpi.hasDisk(diskCid, call())), `has_disk of ${diskCid} answered true`);
      made.diskCid = undefined;
      return requireFailure(cpi.deleteDisk(diskCid, call()), "DISK_NOT_FOUND", "DiskNotFound", "succeeds");
    },
  },
  {
    title: "delete_vm deletes the VM, has_vm answers false, and again it fails with VMNotFound",
    run: async ({ cpi, call, made }) => {
      const vmCid = needed("VM", made.vmCid);
      await cpi.deleteVm(vmCid, call());
      requireThat(!(await cpi.hasVm(vmCid, call())).exists, `has_vm of ${vmCid} answered true`);
      made.vmCid = undefined;
      return requireFailure(cpi.deleteVm(vmCid, call()), "VM_NOT_FOUND", "VMNotFound", "succeeds");
    },
  },
  {
    title: "delete_stemcell deletes the stemcell",
    run: async ({ cpi, call, objects, made }) => {
      if (objects.stemcell.cid !== undefined) throw new LeftOut("the objects file names a stemcell, which stays");
      await cpi.deleteStemcell(needed("stemcell", made.stemcellCid), call());
      made.stemcellCid = undefined;
    },
  },
];

/** Returns a hint without the values of an object, which may be credentials of a target. */
function hintText(hint: unknown): string {
  return isJsonObject(hint)
    ? `an object of ${Object.keys(hint).join(", ") || "nothing"}`
    : JSON.stringify(hint ?? null);
}
