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

/** What a new certificate is signed by and comes with. */
export interface AgentTrust {
  /** As an AgentKey has them. */
  readonly authority: string;
  readonly trusted: string;
}

/**
 * What is known of an instance's VM.
 * none: there is no VM. creating: create_vm may have been called. created: there is one; its agent has not answered yet.
 * running: its agent has answered. lost: its CPI says that it is gone, or its agent did not answer when it should have.
 * deleting: its disks are being detached, or delete_vm may have been called.
 */
export type VmState = "none" | "creating" | "created" | "running" | "lost" | "deleting";

/** What operators want of an instance: that its jobs run, that they do not, or that it has no VM either. */
export type InstanceState = "started" | "stopped" | "detached";

/**
 * What an instance's agent was told. stopping: its jobs may run or not. stopped: they do not, or have never been started.
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
  /** What create_vm was asked for, while it is not known what came of it. */
  readonly vmSpec: VmSpec | null;
  /** What its VM was made by; null when that is not known. */
  readonly basis: VmBasis | null;
  /** Of its VM, as name/version; empty for none. */
  readonly stemcell: string;
  readonly stemcellApiVersion: number;
  /** The version of the CPI contract that its VM was made by; 0 when not known. */
  readonly cpiApiVersion: number;
  /** Its VM's agent reads its settings from the bosh-registry. */
  readonly usesRegistry: boolean;
  /** Of its VM, by name, as the CPI settled them. */
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

/** As people know it. */
export function formatInstance(instance: Pick<Instance, "group" | "instanceId">): string {
  return `${instance.group}/${instance.instanceId}`;
}

/** What create_vm is asked for, recorded with the intent: asked for again, it is the same. */
export interface VmSpec {
  /** Empty for none. */
  readonly stemcellCid: string;
  readonly cloudProperties: JsonObject;
  readonly networks: JsonObject;
  readonly env: JsonObject;
}

/**
 * What the manifest and the configs said of a VM when it was made. Agents' settings are not part of it: they rotate
 * without a VM being made anew, and are secret.
 */
export interface VmBasis {
  /** Name and version; empty for none. */
  readonly stemcell: string;
  readonly cloudProperties: JsonObject;
  /** As create_vm was asked for them. */
  readonly networks: JsonObject;
  /** Of the manifest. */
  readonly env: JsonObject;
  /** As the VM's metadata has them. */
  readonly tags: JsonObject;
  /** Group and index in the VM's metadata; earlier releases recorded none. */
  readonly member?: string;
}
