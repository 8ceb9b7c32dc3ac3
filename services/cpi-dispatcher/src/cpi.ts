/** What a CPI call carries beside its arguments. */
export interface CpiCall {
  /** Aborts when the caller gives up, the deadline comes, or a newer director leads. */
  readonly signal: AbortSignal;
  /** When the call must have ended, in milliseconds since 1970. */
  readonly deadlineAtMs: number;
  readonly requestId: string;
  /** Empty when an operator calls. */
  readonly directorId: string;
  /** api_version of the VM's stemcell; 0 when not known. */
  readonly stemcellApiVersion: number;
}

export type JsonObject = Readonly<Record<string, unknown>>;

export interface CpiInfo {
  readonly apiVersion: number;
  readonly stemcellFormats: readonly string[];
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

/**
 * The BOSH CPI contract, one method per CPI method. Implementations throw the errors of errors.ts for the error types
 * that callers act on, stop when the call's signal aborts, and then have nothing under way any more.
 */
export interface Cpi {
  info(call: CpiCall): Promise<CpiInfo>;
  createVm(vm: NewVm, call: CpiCall): Promise<Vm>;
  deleteVm(vmCid: string, call: CpiCall): Promise<void>;
  hasVm(vmCid: string, call: CpiCall): Promise<boolean>;
  /** Returns the disk's id. */
  createDisk(disk: NewDisk, call: CpiCall): Promise<string>;
  deleteDisk(diskCid: string, call: CpiCall): Promise<void>;
  hasDisk(diskCid: string, call: CpiCall): Promise<boolean>;
  /** Returns the hint by which the VM's agent finds the disk. */
  attachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<unknown>;
  detachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<void>;
  getDisks(vmCid: string, call: CpiCall): Promise<readonly string[]>;
  /** Replaces all that was set before. */
  setDiskMetadata(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<void>;
}
