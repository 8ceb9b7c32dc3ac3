import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { formatInstance, type Instance, type VmBasis, type VmSpec, type VmState } from "../store/instance.js";

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
  isVmGone: undefined,
} as const;

export function newInstance(place: Pick<Instance, "instanceId" | "deployment" | "group" | "index" | "az">): Instance {
  return { ...place, leaving: false, vmState: "none", ...NO_VM, ips: {} };
}

/** One of another group, with its VM, disks and addresses. The VM's metadata say what it was until they are set again. */
export function movedTo(group: string, index: number, az: string, instance: Instance): Instance {
  const { basis } = instance;
  return { ...instance, group, index, az, basis: basis && { member: memberOf(instance), ...basis } };
}

/** Returns the instance's name in a VM's metadata. */
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
  return { ...moved(instance, "answer"), isVmGone: undefined };
}

export function vmLost(instance: Instance): Instance {
  return { ...moved(instance, "lose"), isVmGone: undefined };
}

/** Its CPI says that there is none: nothing runs on it. */
export function vmGone(instance: Instance): Instance {
  return { ...vmLost(instance), jobs: "stopped", isVmGone: true };
}

/**
 * Returns the agent to tell of the VM's disks; empty for none. An agent is gone with a VM that its CPI says is gone, unless
 * it goes by another id than the VM was given: it may serve the next VM, and would lead that to former disks.
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

/** Its VM is there, so that a disk can be attached to it. */
export function isTarget({ vmState }: Pick<Instance, "vmState">): boolean {
  return vmState === "created" || vmState === "running";
}

/** Where a disk asked for on that instance goes. */
export function targetOf(instanceId: string, recorded: Instance | undefined): Target {
  const instance = instanceNamed(instanceId, recorded);
  if (!isTarget(instance)) {
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
