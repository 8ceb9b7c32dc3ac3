import type { JsonObject } from "./json.js";

/** A certificate signed for a VM's agent, without its private key, which the director does not store. */
export interface AgentKey {
  /** SHA-256 of the certificate's public key, in hex. */
  readonly pin: string;
  /** SHA-256 of the issuing authority's certificate, in hex. */
  readonly authority: string;
  /** SHA-256 of the authorities that the agent was given to verify NATS, in hex. */
  readonly trusted: string;
  readonly issuedAtMs: number;
  readonly endsAtMs: number;
}

/** The authority that signs new certificates, and the authorities given to agents with them. */
export interface AgentTrust {
  /** SHA-256 of the authority's certificate, in hex, as in AgentKey. */
  readonly authority: string;
  readonly trusted: string;
}

/**
 * The known state of an instance's VM. none: no VM exists. creating: create_vm may have been called. created: the VM
 * exists and its agent has not answered yet. running: the agent has answered. lost: the CPI reports the VM as gone, or
 * the agent did not answer in time. deleting: the VM's disks are being detached, or delete_vm may have been called.
 */
export type VmState = "none" | "creating" | "created" | "running" | "lost" | "deleting";

/** The state that operators request for an instance: jobs running, jobs stopped, or no VM. */
export type InstanceState = "started" | "stopped" | "detached";

/**
 * The last order sent to an instance's agent. stopping: the jobs may or may not run. stopped: the jobs do not run, or
 * were never started.
 */
export type JobsState = "started" | "stopping" | "stopped";

/** A member of an instance group. The instance outlives its VMs. */
export interface Instance {
  readonly instanceId: string;
  readonly deployment: string;
  readonly group: string;
  readonly index: number;
  /** Empty when the instance group names no AZ. */
  readonly az: string;
  /** Set when the manifest has no place for the instance any more. The VM and then the instance are deleted. */
  readonly leaving: boolean;
  readonly vmState: VmState;
  /** Recorded before create_vm is called. CPIs with lookup by token find the VM again by this token. */
  readonly vmToken: string;
  readonly vmCid: string;
  readonly agentId: string;
  /** The name of the CPI that made the VM; empty for the default CPI. */
  readonly cpi: string;
  /** The arguments of create_vm, while its outcome is unknown. */
  readonly vmSpec: VmSpec | null;
  /** The specification from which the VM was made; null when unknown. */
  readonly basis: VmBasis | null;
  /** The VM's stemcell as name/version; empty for none. */
  readonly stemcell: string;
  readonly stemcellApiVersion: number;
  /** The CPI contract version with which the VM was made; 0 when unknown. */
  readonly cpiApiVersion: number;
  /** Set when the VM's agent reads its settings from the bosh-registry. */
  readonly usesRegistry: boolean;
  /** The VM's networks by name, as returned by the CPI. */
  readonly networks: JsonObject;
  /** Addresses by network name; the instance keeps them when its VM is replaced. */
  readonly ips: Readonly<Record<string, string>>;
  /** Undefined means started. */
  readonly state?: InstanceState | undefined;
  /** Set while operators exclude the instance from all changes. Undefined means false. */
  readonly ignore?: boolean | undefined;
  /** Undefined means started, because earlier releases sent no orders. */
  readonly jobs?: JobsState | undefined;
  /** Undefined without a VM, and for VMs of earlier releases. */
  readonly vmCreatedAtMs?: number | undefined;
  /** Set when the CPI reports that the VM does not exist, so that its agent is not called. Undefined means false. */
  readonly isVmGone?: boolean | undefined;
  /** The last task that restarted the instance or recreated its VM on request; undefined for none. */
  readonly changedByTaskId?: number | undefined;
  /**
   * Certificates that the VM's agent may use, newest last; NATS accepts no others. Undefined when none was signed, e.g.
   * for an agent with a certificate from the manifest.
   */
  readonly agentKeys?: readonly AgentKey[] | undefined;
}

/** Returns a key that separates its parts by a space, because neither network names nor addresses contain spaces. */
export function addressKey(network: string, ip: string): string {
  return `${network} ${ip}`;
}

/** Returns the instance's display name. */
export function formatInstance(instance: Pick<Instance, "group" | "instanceId">): string {
  return `${instance.group}/${instance.instanceId}`;
}

/** The arguments of create_vm, recorded with the intent so that a repeated call is identical. */
export interface VmSpec {
  /** Empty for none. */
  readonly stemcellCid: string;
  readonly cloudProperties: JsonObject;
  readonly networks: JsonObject;
  readonly env: JsonObject;
}

/**
 * The part of the manifest and the configs from which a VM was made. Agent settings are excluded, because they rotate
 * without the VM being recreated and are secret.
 */
export interface VmBasis {
  /** Name/version; empty for none. */
  readonly stemcell: string;
  readonly cloudProperties: JsonObject;
  /** The networks in the arguments of create_vm. */
  readonly networks: JsonObject;
  readonly env: JsonObject;
  readonly tags: JsonObject;
  /** Group and index in the VM's metadata. */
  readonly member: string;
  /** The VM type's name; empty for none, undefined in records of 0.1.0. */
  readonly vmType?: string;
}
