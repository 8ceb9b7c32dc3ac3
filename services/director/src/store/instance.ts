import type { JsonObject } from "./json.js";

/** A certificate that was signed for a VM's agent, but for its key, which is given away and kept nowhere. */
export interface AgentKey {
  /** SHA-256 of its public key, in hex. */
  readonly pin: string;
  /** SHA-256 of the certificate of the authority that signed it, in hex. */
  readonly authority: string;
  /** SHA-256 of the authorities by which the agent was told to know NATS, in hex. */
  readonly trusted: string;
  readonly issuedAtMs: number;
  readonly endsAtMs: number;
}

/** The authority that signs new certificates, and the authorities that come with them. */
export interface AgentTrust {
  /** The authority in the form of AgentKey. */
  readonly authority: string;
  readonly trusted: string;
}

/**
 * The known state of an instance's VM.
 * none: there is no VM. creating: create_vm may have been called. created: there is one; its agent has not answered yet.
 * running: its agent has answered. lost: its CPI says that it is gone, or its agent did not answer when it should have.
 * deleting: its disks are being detached, or delete_vm may have been called.
 */
export type VmState = "none" | "creating" | "created" | "running" | "lost" | "deleting";

/** The operators' wish for an instance: its jobs run, they do not, or it has no VM either. */
export type InstanceState = "started" | "stopped" | "detached";

/**
 * The last order to an instance's agent. stopping: its jobs may run or not. stopped: they do not, or have never been started.
 */
export type JobsState = "started" | "stopping" | "stopped";

/** One member of an instance group; it outlives its VMs. */
export interface Instance {
  readonly instanceId: string;
  readonly deployment: string;
  readonly group: string;
  readonly index: number;
  /** Empty when its group names none. */
  readonly az: string;
  /** The manifest has no place for it any more: its VM is deleted, then it. */
  readonly leaving: boolean;
  readonly vmState: VmState;
  /** The intent to make a VM, recorded before the call that makes it; CPIs that can, find the VM again by it. */
  readonly vmToken: string;
  readonly vmCid: string;
  readonly agentId: string;
  /** Name of the CPI that made the VM; empty for the default one. */
  readonly cpi: string;
  /** The arguments of create_vm, while its outcome is unknown. */
  readonly vmSpec: VmSpec | null;
  /** The basis of its VM; null when unknown. */
  readonly basis: VmBasis | null;
  /** The stemcell of its VM, as name/version; empty for none. */
  readonly stemcell: string;
  readonly stemcellApiVersion: number;
  /** The version of the CPI contract that its VM was made by; 0 when not known. */
  readonly cpiApiVersion: number;
  /** Its VM's agent reads its settings from the bosh-registry. */
  readonly usesRegistry: boolean;
  /** The networks of its VM by name, as the CPI settled them. */
  readonly networks: JsonObject;
  /** Addresses by network name; the instance keeps them over its VMs. */
  readonly ips: Readonly<Record<string, string>>;
  /** Absent for started. */
  readonly state?: InstanceState | undefined;
  /** Nobody touches it until that is taken back. Absent for no. */
  readonly ignore?: boolean | undefined;
  /** Absent for started: what an earlier release made was never told. */
  readonly jobs?: JobsState | undefined;
  /** The VM's CPI says that there is no such VM, so that no agent is asked for anything. Absent for no. */
  readonly isVmGone?: boolean | undefined;
  /** The last task that restarted it or made its VM anew because that was asked for; absent for none. */
  readonly changedByTaskId?: number | undefined;
  /**
   * Certificates that its VM's agent may use, the newest last; NATS knows no others. Absent where none was signed, as for
   * an agent that brings its own.
   */
  readonly agentKeys?: readonly AgentKey[] | undefined;
}

/** Names of networks and addresses hold no spaces. */
export function addressKey(network: string, ip: string): string {
  return `${network} ${ip}`;
}

/** Returns the instance's name for people. */
export function formatInstance(instance: Pick<Instance, "group" | "instanceId">): string {
  return `${instance.group}/${instance.instanceId}`;
}

/** The arguments of create_vm, recorded with the intent, so that a repeated call is the same. */
export interface VmSpec {
  /** Empty for none. */
  readonly stemcellCid: string;
  readonly cloudProperties: JsonObject;
  readonly networks: JsonObject;
  readonly env: JsonObject;
}

/**
 * The manifest's and configs' wishes for a VM when it was made. Agents' settings are not part of it: they rotate
 * without a VM being made anew, and are secret.
 */
export interface VmBasis {
  /** Name and version; empty for none. */
  readonly stemcell: string;
  readonly cloudProperties: JsonObject;
  /** The networks in the arguments of create_vm. */
  readonly networks: JsonObject;
  /** The env of the manifest. */
  readonly env: JsonObject;
  /** The tags in the VM's metadata. */
  readonly tags: JsonObject;
  /** Group and index in the VM's metadata; earlier releases recorded none. */
  readonly member?: string;
}
