import type { IoLimits, JsonObject } from "@diskmesh/domain";

/** Context of a CPI call besides its arguments. */
export interface CpiCall {
  /** Aborts when the caller gives up, the deadline passes, or a newer director takes over. */
  readonly signal: AbortSignal;
  /** Deadline of the call, in milliseconds since 1970. */
  readonly deadlineAtMs: number;
  readonly requestId: string;
  /** Empty for a call by an operator. */
  readonly directorId: string;
  /** `api_version` of the VM's stemcell; 0 for a VM without one. */
  readonly stemcellApiVersion: number;
  /** Version of the CPI contract that the director prefers; 0 for the highest one available. */
  readonly preferredApiVersion: number;
  /** Receives each line that the CPI logs during the call, with secrets redacted. */
  readonly onLogLine: (line: string) => void;
}

const CALL_ID_LENGTH = 8;

/** Returns the request id that a CPI gets of a call, before each process adds its own suffix. */
export function requestIdOfCall(requestId: string, callId: string): string {
  return callId === "" ? requestId : `${requestId}-${callId.slice(0, CALL_ID_LENGTH)}`;
}

export interface CpiInfo {
  readonly apiVersion: number;
  /** Accepted formats; empty when the CPI accepts all or uses no stemcells. */
  readonly stemcellFormats: readonly string[];
  /**
   * True when a repeated createVm or createDisk with the same agentId or token returns the object made by the first
   * call.
   */
  readonly findsByToken: boolean;
  /** True when createVm requires a stemcell, cloud properties and networks. */
  readonly needsVmSpec: boolean;
}

export interface MadeDisk {
  readonly diskCid: string;
  /** Size of the disk in bytes, at least the requested one; 0 when the CPI does not tell. */
  readonly sizeBytes: number;
}

export interface NewVm {
  readonly agentId: string;
  readonly stemcellCid: string;
  readonly cloudProperties: JsonObject;
  readonly networks: JsonObject;
  readonly diskCids: readonly string[];
  readonly env: JsonObject;
  /** Empty for any availability zone. */
  readonly az: string;
}

export interface Vm {
  readonly vmCid: string;
  readonly networks: JsonObject;
  /** Id under which the VM's agent is reached over mbus. */
  readonly agentId: string;
  /** True when the agent gets its settings from the bosh-registry. */
  readonly usesRegistry: boolean;
  /** Version of the CPI contract that was used for the call. */
  readonly apiVersion: number;
}

/** A VM, or a host that is used without one (see cidOfHost), as `hasVm` finds it. */
export interface FoundVm {
  readonly exists: boolean;
  /** Availability zone; empty when the CPI does not tell. */
  readonly az: string;
}

/** A VM as `listVms` returns it. */
export interface ListedVm {
  readonly vmCid: string;
  /** Agent id passed to create_vm; empty when the CPI does not know it. */
  readonly agentId: string;
}

/** The page to list: `pageToken` is the former page's `nextPageToken`, or empty. */
export interface WantedPage {
  readonly pageSize: number;
  readonly pageToken: string;
}

export interface VmPage {
  readonly vms: readonly ListedVm[];
  /** Empty on the last page. A page may be empty and not the last one. */
  readonly nextPageToken: string;
}

export interface NewDisk {
  readonly sizeMib: number;
  readonly cloudProperties: JsonObject;
  /** CID of a VM or host near which to place the disk; empty for none. */
  readonly vmCid: string;
  readonly az: string;
  /** A repeated call with this token returns the same disk if the CPI supports tokens. Empty for none. */
  readonly token: string;
}

export interface AttachOptions {
  /** Executable CPIs refuse a read-only attach, because BOSH's contract has none. */
  readonly readOnly: boolean;
}

/** Space for new disks, in bytes. */
export interface Capacity {
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly maxDiskBytes: number;
}

export interface NewStemcell {
  readonly imagePath: string;
  readonly cloudProperties: JsonObject;
  readonly tags: JsonObject;
}

/**
 * BOSH CPI contract, one method per CPI method. Implementations throw the errors of errors.ts. When the call's signal
 * aborts, they end the work and only then reject, so that nothing runs on.
 */
export interface Cpi {
  info(call: CpiCall): Promise<CpiInfo>;
  createStemcell(stemcell: NewStemcell, call: CpiCall): Promise<string>;
  deleteStemcell(stemcellCid: string, call: CpiCall): Promise<void>;
  createVm(vm: NewVm, call: CpiCall): Promise<Vm>;
  deleteVm(vmCid: string, call: CpiCall): Promise<void>;
  hasVm(vmCid: string, call: CpiCall): Promise<FoundVm>;
  /**
   * Returns a page of all VMs, whoever created them. Executable CPIs do not have this method, because BOSH's contract lacks it.
   */
  listVms(page: WantedPage, call: CpiCall): Promise<VmPage>;
  rebootVm(vmCid: string, call: CpiCall): Promise<void>;
  /** Replaces the whole metadata. */
  setVmMetadata(vmCid: string, metadata: JsonObject, call: CpiCall): Promise<void>;
  createDisk(disk: NewDisk, call: CpiCall): Promise<MadeDisk>;
  deleteDisk(diskCid: string, call: CpiCall): Promise<void>;
  hasDisk(diskCid: string, call: CpiCall): Promise<boolean>;
  /**
   * Returns the hint by which the VM's agent finds the disk; undefined when the agent gets it from the bosh-registry.
   */
  attachDisk(vmCid: string, diskCid: string, call: CpiCall, options?: AttachOptions): Promise<unknown>;
  detachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<void>;
  getDisks(vmCid: string, call: CpiCall): Promise<readonly string[]>;
  /** Replaces the whole metadata. */
  setDiskMetadata(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<void>;
  /** Returns the size of the disk in bytes; 0 when the CPI does not tell. */
  resizeDisk(diskCid: string, sizeMib: number, call: CpiCall): Promise<number>;
  /**
   * Replaces the disk's I/O limits; undefined for none. Executable CPIs do not have this method, because BOSH's contract
   * lacks it.
   */
  setDiskLimits(diskCid: string, limits: IoLimits | undefined, call: CpiCall): Promise<void>;
  /**
   * Returns the space for new disks with these cloud properties in an AZ. Executable CPIs do not have this method,
   * because BOSH's contract lacks it.
   */
  getCapacity(az: string, cloudProperties: JsonObject, call: CpiCall): Promise<Capacity>;
  /** Returns the disk's CID after the update, which may differ. */
  updateDisk(diskCid: string, sizeMib: number, cloudProperties: JsonObject, call: CpiCall): Promise<string>;
  snapshotDisk(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<string>;
  deleteSnapshot(snapshotCid: string, call: CpiCall): Promise<void>;
  calculateVmCloudProperties(desired: JsonObject, call: CpiCall): Promise<JsonObject>;
}
