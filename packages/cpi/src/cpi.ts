import type { JsonObject } from "@diskmesh/domain";

/** The context of a CPI call, beside its arguments. */
export interface CpiCall {
  /** Aborts when the caller gives up, the deadline comes, or a newer director leads. */
  readonly signal: AbortSignal;
  /** When the call must have ended, in milliseconds since 1970. */
  readonly deadlineAtMs: number;
  readonly requestId: string;
  /** Empty when an operator calls. */
  readonly directorId: string;
  /** api_version of the VM's stemcell; 0 when it has none. */
  readonly stemcellApiVersion: number;
  /** The director's preferred version of the contract; 0 for the highest there is. */
  readonly preferredApiVersion: number;
  /** Gets what the CPI says while it works, secrets redacted. */
  readonly onLogLine: (line: string) => void;
}

export interface CpiInfo {
  readonly apiVersion: number;
  /** Empty when it takes any, or none. */
  readonly stemcellFormats: readonly string[];
  /** createVm and createDisk, called again with the same agentId or token, find what an earlier call made. */
  readonly findsByToken: boolean;
  /** createVm needs a stemcell, cloud properties and networks. */
  readonly needsVmSpec: boolean;
}

export interface NewVm {
  readonly agentId: string;
  readonly stemcellCid: string;
  readonly cloudProperties: JsonObject;
  readonly networks: JsonObject;
  readonly diskCids: readonly string[];
  readonly env: JsonObject;
  /** Empty for any. */
  readonly az: string;
}

export interface Vm {
  readonly vmCid: string;
  readonly networks: JsonObject;
  /** The id under which its agent is reached by mbus. */
  readonly agentId: string;
  /** True when the agent reads its settings from the bosh-registry. */
  readonly usesRegistry: boolean;
  /** The version of the contract that was spoken. */
  readonly apiVersion: number;
}

/** One that a CPI has. */
export interface ListedVm {
  readonly vmCid: string;
  /** The agent id that create_vm got; empty where the CPI does not know it. */
  readonly agentId: string;
}

export interface NewDisk {
  readonly sizeMib: number;
  readonly cloudProperties: JsonObject;
  /** VM near which to place it; empty when there is none. */
  readonly vmCid: string;
  readonly az: string;
  /** The same token again finds the same disk, where the CPI can; empty when there is none. */
  readonly token: string;
}

export interface NewStemcell {
  readonly imagePath: string;
  readonly cloudProperties: JsonObject;
  readonly tags: JsonObject;
}

/**
 * The BOSH CPI contract, one method per CPI method. Implementations throw the errors of errors.ts for the error types
 * that callers act on, stop when the call's signal aborts, and then have nothing under way any more.
 */
export interface Cpi {
  info(call: CpiCall): Promise<CpiInfo>;
  /** Returns the stemcell's id. */
  createStemcell(stemcell: NewStemcell, call: CpiCall): Promise<string>;
  deleteStemcell(stemcellCid: string, call: CpiCall): Promise<void>;
  createVm(vm: NewVm, call: CpiCall): Promise<Vm>;
  deleteVm(vmCid: string, call: CpiCall): Promise<void>;
  hasVm(vmCid: string, call: CpiCall): Promise<boolean>;
  /** All that there are, whoever had them made. No method of BOSH's contract: no executable has it. */
  listVms(call: CpiCall): Promise<readonly ListedVm[]>;
  rebootVm(vmCid: string, call: CpiCall): Promise<void>;
  /** Replaces all that was set before. */
  setVmMetadata(vmCid: string, metadata: JsonObject, call: CpiCall): Promise<void>;
  /** Returns the disk's id. */
  createDisk(disk: NewDisk, call: CpiCall): Promise<string>;
  deleteDisk(diskCid: string, call: CpiCall): Promise<void>;
  hasDisk(diskCid: string, call: CpiCall): Promise<boolean>;
  /** Returns the hint by which the VM's agent finds the disk; undefined when the bosh-registry tells the agent. */
  attachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<unknown>;
  detachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<void>;
  getDisks(vmCid: string, call: CpiCall): Promise<readonly string[]>;
  /** Replaces all that was set before. */
  setDiskMetadata(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<void>;
  resizeDisk(diskCid: string, sizeMib: number, call: CpiCall): Promise<void>;
  /** Returns the disk's id from now on. */
  updateDisk(diskCid: string, sizeMib: number, cloudProperties: JsonObject, call: CpiCall): Promise<string>;
  /** Returns the snapshot's id. */
  snapshotDisk(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<string>;
  deleteSnapshot(snapshotCid: string, call: CpiCall): Promise<void>;
  calculateVmCloudProperties(desired: JsonObject, call: CpiCall): Promise<JsonObject>;
}
