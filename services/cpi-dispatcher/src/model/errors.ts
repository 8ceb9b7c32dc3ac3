import { InvalidStateError, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";

// The error types of the CPI contract that callers act on. Their names become the reasons VM_NOT_FOUND and so on.

/** The CPI knows no such VM. */
export class VmNotFoundError extends NotFoundError {
  override readonly name = "VmNotFoundError";

  constructor(vmCid: string) {
    super(`there is no VM ${vmCid}`, { about: { vm_cid: vmCid } });
  }
}

/** The CPI knows no such disk. */
export class DiskNotFoundError extends NotFoundError {
  override readonly name = "DiskNotFoundError";

  constructor(diskCid: string) {
    super(`there is no disk ${diskCid}`, { about: { disk_cid: diskCid } });
  }
}

/** The disk is not attached to the VM it is to be detached from. */
export class DiskNotAttachedError extends InvalidStateError {
  override readonly name = "DiskNotAttachedError";

  constructor(diskCid: string, vmCid: string) {
    super(`disk ${diskCid} is not attached to VM ${vmCid}`, { about: { disk_cid: diskCid, vm_cid: vmCid } });
  }
}

/** There is no room for the disk. */
export class NoDiskSpaceError extends ResourceExhaustedError {
  override readonly name = "NoDiskSpaceError";
}
