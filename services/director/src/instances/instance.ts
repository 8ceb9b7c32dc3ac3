import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { formatInstance, type Instance, type VmBasis, type VmSpec, type VmState } from "../store/instance.js";

/** An attach target: an instance's VM, or a host. */
export interface Target {
  /** Empty for a host, as are deployment and agentId: no agent is told of a host's disks. */
  readonly instanceId: string;
  /** Undefined for an instance. */
  readonly hostId?: string | undefined;
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
  // "creating" is missing: deletion needs the VM's cid, so the creation is finished first.
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
  isVmGone: undefined,
  vmCreatedAtMs: undefined,
} as const;

export function newInstance(place: Pick<Instance, "instanceId" | "deployment" | "group" | "index" | "az">): Instance {
  return { ...place, leaving: false, vmState: "none", ...NO_VM, ips: {} };
}

/**
 * Returns the instance moved to another group with its VM, disks and addresses. The VM's metadata keeps the former
 * group until it is set again.
 */
export function movedTo(group: string, index: number, az: string, instance: Instance): Instance {
  return { ...instance, group, index, az };
}

/** Returns the instance's group and index as stored in the VM's metadata. */
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

/**
 * Returns the instance with the intent to create its VM. An earlier intent is kept, because it may have been acted on.
 */
export function intendCreateVm(instance: Instance, intent: VmIntent): Instance {
  const next = moved(instance, "intend_create");
  return instance.vmState === "creating" ? next : { ...next, ...intent };
}

export type MadeVm = Pick<
  Instance,
  "vmCid" | "agentId" | "cpi" | "cpiApiVersion" | "usesRegistry" | "networks" | "vmCreatedAtMs"
>;

export function vmCreated(instance: Instance, vm: MadeVm): Instance {
  // The signed certificate is for the requested agent id, so an agent with another id cannot use it.
  const agentKeys = vm.agentId === instance.vmToken ? instance.agentKeys : undefined;
  return { ...moved(instance, "create"), ...vm, vmSpec: null, jobs: "stopped", agentKeys };
}

/** Returns the instance without a VM; create_vm is known to have made nothing. */
export function vmNotCreated(instance: Instance): Instance {
  return { ...moved(instance, "fail_create"), ...NO_VM };
}

export function agentAnswered(instance: Instance): Instance {
  return { ...moved(instance, "answer"), isVmGone: undefined };
}

export function vmLost(instance: Instance): Instance {
  return { ...moved(instance, "lose"), isVmGone: undefined };
}

/** Returns the instance as lost with stopped jobs, because its CPI reports that the VM does not exist. */
export function vmGone(instance: Instance): Instance {
  return { ...vmLost(instance), jobs: "stopped", isVmGone: true };
}

/**
 * Returns the agent to notify of the VM's disks; empty for none. The agent is not notified when the CPI reports that
 * its VM is gone. An agent whose id differs from the VM's token is notified even then, because it may serve the next VM
 * and would link former disks there.
 */
export function agentToTell({ agentId = "", vmToken = "", isVmGone = false }: Partial<Instance>): string {
  return isVmGone && agentId === vmToken ? "" : agentId;
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

/** Returns true when the VM exists, so that a disk can be attached to it. */
export function isTarget({ vmState }: Pick<Instance, "vmState">): boolean {
  return vmState === "created" || vmState === "running";
}

/**
 * Returns the attach target for a disk requested on the instance; throws InvalidStateError when the instance has no
 * active VM.
 */
export function targetOf(instanceId: string, recorded: Instance | undefined): Target {
  const instance = instanceNamed(instanceId, recorded);
  if (!isTarget(instance)) {
    throw new InvalidStateError(
      `no active vm found for instance \`${instanceId}\`: its vm is ${instance.vmState === "none" ? "not there" : `${instance.vmState}`}; deploy \`${instance.deployment}\` again`,
      { reason: "NO_ACTIVE_VM", about: { instance_id: instanceId } },
    );
  }
  return instance;
}

/** Returns true when the instance's jobs run or may run, so that they may use its disks. */
export function mayRunJobs({ vmState, state = "started", jobs = "started" }: Instance): boolean {
  return vmState !== "none" && (state === "started" || jobs !== "stopped");
}
