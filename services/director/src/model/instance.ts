import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import type { AgentKey } from "./agent-key.js";
import type { JsonObject } from "./json.js";
import type { VmBasis, VmSpec } from "./vm-spec.js";

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

/** An instance with a VM that a disk can be attached to. */
export interface Target {
  readonly instanceId: string;
  readonly deployment: string;
  readonly az: string;
  readonly cpi: string;
  readonly vmCid: string;
  readonly agentId: string;
  readonly stemcellApiVersion: number;
}

type VmEvent = "intend_create" | "create" | "fail_create" | "answer" | "lose" | "intend_delete" | "delete";

const TRANSITIONS: Readonly<Record<VmEvent, Partial<Record<VmState, VmState>>>> = {
  intend_create: { none: "creating", creating: "creating" },
  create: { creating: "created" },
  fail_create: { creating: "none" },
  answer: { created: "running", lost: "running" },
  lose: { created: "lost", running: "lost", lost: "lost" },
  // Not from creating: without the VM's id nothing could be deleted, so the creation is finished first.
  intend_delete: { created: "deleting", running: "deleting", lost: "deleting", deleting: "deleting" },
  delete: { deleting: "none" },
};

const NO_VM = {
  vmToken: "",
  vmCid: "",
  agentId: "",
  cpi: "",
  vmSpec: null,
  basis: null,
  stemcell: "",
  stemcellApiVersion: 0,
  cpiApiVersion: 0,
  usesRegistry: false,
  networks: {},
  jobs: "stopped",
  agentKeys: undefined,
} as const;

export function newInstance(place: Pick<Instance, "instanceId" | "deployment" | "group" | "index" | "az">): Instance {
  return { ...place, leaving: false, vmState: "none", ...NO_VM, ips: {} };
}

/** One of another group, with its VM, disks and addresses. The VM's metadata say what it was until they are set again. */
export function movedTo(group: string, index: number, az: string, instance: Instance): Instance {
  const { basis } = instance;
  return { ...instance, group, index, az, basis: basis && { member: memberOf(instance), ...basis } };
}

/** As a VM's metadata have it. */
export function memberOf({ group, index }: Pick<Instance, "group" | "index">): string {
  return `${group}/${index}`;
}

function moved(instance: Instance, event: VmEvent): Instance {
  const vmState = TRANSITIONS[event][instance.vmState];
  if (vmState === undefined) {
    throw new InvalidStateError(
      `the vm of ${formatInstance(instance)} is ${instance.vmState}: it cannot ${event.replace("_", " ")}`,
      { about: { instance_id: instance.instanceId } },
    );
  }
  return { ...instance, vmState };
}

export type VmIntent = Pick<
  Instance,
  "vmToken" | "cpi" | "stemcell" | "stemcellApiVersion" | "cpiApiVersion" | "usesRegistry" | "ips"
> & { readonly vmSpec: VmSpec; readonly basis: VmBasis };

/** Keeps the intent that was recorded first, if any: it may have been acted on. */
export function intendCreateVm(instance: Instance, intent: VmIntent): Instance {
  const next = moved(instance, "intend_create");
  return instance.vmState === "creating" ? next : { ...next, ...intent };
}

export type MadeVm = Pick<Instance, "vmCid" | "agentId" | "cpi" | "cpiApiVersion" | "usesRegistry" | "networks">;

export function vmCreated(instance: Instance, vm: MadeVm): Instance {
  // One that goes by another id than it was asked for has a certificate of somebody else.
  const agentKeys = vm.agentId === instance.vmToken ? instance.agentKeys : undefined;
  return { ...moved(instance, "create"), ...vm, vmSpec: null, jobs: "stopped", agentKeys };
}

/** create_vm is known to have made nothing. */
export function vmNotCreated(instance: Instance): Instance {
  return { ...moved(instance, "fail_create"), ...NO_VM };
}

export function agentAnswered(instance: Instance): Instance {
  return moved(instance, "answer");
}

export function vmLost(instance: Instance): Instance {
  return moved(instance, "lose");
}

/** Its CPI says that there is none: nothing runs on it. */
export function vmGone(instance: Instance): Instance {
  return { ...vmLost(instance), jobs: "stopped" };
}

export function intendDeleteVm(instance: Instance): Instance {
  return moved(instance, "intend_delete");
}

export function vmDeleted(instance: Instance): Instance {
  return { ...moved(instance, "delete"), ...NO_VM };
}

export function instanceNamed(instanceId: string, instance: Instance | undefined): Instance {
  if (instance !== undefined) return instance;
  throw new NotFoundError(`instance \`${instanceId}\` not found`, { about: { instance_id: instanceId } });
}

/** Where a disk asked for on that instance goes. */
export function targetOf(instanceId: string, recorded: Instance | undefined): Target {
  const instance = instanceNamed(instanceId, recorded);
  if (instance.vmState !== "created" && instance.vmState !== "running") {
    throw new InvalidStateError(
      `no active vm found for instance \`${instanceId}\`: its vm is ${instance.vmState === "none" ? "not there" : `${instance.vmState}`}; deploy \`${instance.deployment}\` again`,
      { about: { instance_id: instanceId } },
    );
  }
  return instance;
}

/** Its jobs run, or may run: what it has they may use. */
export function mayRunJobs({ vmState, state = "started", jobs = "started" }: Instance): boolean {
  return vmState !== "none" && (state === "started" || jobs !== "stopped");
}

/** As people know it. */
export function formatInstance(instance: Pick<Instance, "group" | "instanceId">): string {
  return `${instance.group}/${instance.instanceId}`;
}
