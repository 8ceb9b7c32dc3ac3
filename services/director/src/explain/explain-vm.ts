import type { Cure } from "@diskmesh/domain";
import { whyHeldUp } from "../cpi/cpi-call.js";
import { isUnknownAttach } from "../health/resurrection.js";
import { type LockType, lockName, ownerText } from "../locks/locks.js";
import type { Disk } from "../store/disk.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { Found, Known, KnownVm, Subject } from "./cause.js";

const SHOWN_DISKS = 3;

export function vmCauses(vm: KnownVm | undefined, known: Known): Found[] {
  if (vm === undefined) return [];
  const { instance, isShutOut, disks } = vm;
  const name = shown(instance);
  const lock = locked("instance", instance.instanceId, name, known);
  const found: (Found | undefined)[] = [
    lock,
    instance.ignore
      ? routine("IGNORED", `${name} is ignored, so the director changes nothing of it`, [
          way(instance, "unignore it", "unignore"),
        ])
      : undefined,
    heldUp(`vmCid ${instance.vmCid}`, known),
    // While a task holds the VM's lock, an unsettled state is no cause of its own, because that task settles the VM.
    lock && isUnsettled(instance) ? undefined : vmState(vm, known.isBusy(instance.deployment)),
    silence(vm),
    isShutOut
      ? cause("CERTIFICATE_ENDED", `the agent of ${name} cannot connect to NATS, because its certificate has ended`, [
          recreate(instance),
        ])
      : undefined,
    owes(vm),
  ];
  const unsettled = disks.filter(isUnknownAttach).map(({ diskCid }): Subject => ({ kind: "DISK", name: diskCid }));
  if (unsettled.length > 0)
    found.push({
      reason: "DISK_UNSETTLED",
      message: `it is not known whether ${unsettled.map((disk) => disk.name).join(", ")} is attached to ${name}`,
      becauseOf: unsettled,
      isRoutine: true,
    });
  return found.filter((each) => each !== undefined);
}

/**
 * Returns the causes that the director's records give for the state of a dynamic or persistent disk. The causes at the
 * disk's host come from the registry.
 */
export function diskCauses(disk: Disk | PersistentDisk | undefined, known: Known): Found[] {
  if (disk === undefined) return [];
  const id = "name" in disk ? disk.name : disk.diskId;
  const { state, instanceId } = disk;
  const becauseOf: Subject[] = instanceId === "" ? [] : [{ kind: "VM", name: instanceId }];
  const call = CALLS[state];
  const lock = locked("disk", id, `disk ${id}`, known);
  const rest = [lock, heldUp(`diskCid ${disk.diskCid}`, known)].filter((each) => each !== undefined);
  if (call === undefined) return rest;
  const message = `disk ${id} is ${state}: ${call} may have been called, but its outcome is not recorded yet`;
  const again: readonly Cure[] = lock === undefined ? [["no task works on the disk: repeat the request", ""]] : [];
  return [{ reason: "DISK_UNSETTLED", message, cures: again, becauseOf }, ...rest];
}

/** Returns the director's use of a registry's disk or host, and the command that ends the use. */
export function useCauses({ kind, name }: Subject, { diskOf, vmOf }: Known): Found[] {
  if (kind === "VM") {
    const { instance } = vmOf(name) ?? {};
    if (instance === undefined) return [];
    const stop = way(instance, "stop it and have its VM deleted", "stop --hard");
    return [cause("IN_USE", `VM ${name} belongs to ${shown(instance)}`, [stop])];
  }
  const disk = kind === "DISK" ? diskOf(name) : undefined;
  if (disk === undefined) return [];
  const instance = vmOf(disk.instanceId)?.instance;
  const what = "name" in disk ? `dynamic disk ${disk.name}` : `persistent disk ${disk.diskId}`;
  if (instance === undefined)
    return [
      cause("IN_USE", `${what} (${name}) is kept, and attached to no VM`, [["delete it, if nobody needs it", ""]]),
    ];
  const take: Cure =
    "name" in disk
      ? ["detach it", `diskmesh detach ${disk.name}`]
      : way(instance, "stop it and have its VM deleted", "stop --hard");
  return [cause("IN_USE", `${what} (${name}) is attached to ${shown(instance)}`, [take])];
}

const CALLS: Readonly<Record<string, string>> = {
  creating: "create_disk",
  attaching: "attach_disk",
  detaching: "detach_disk",
  deleting: "delete_disk",
};

const isUnsettled = ({ vmState: state }: Instance): boolean => state === "creating" || state === "deleting";

function locked(type: LockType, resource: string, what: string, { locks, taskOf }: Known): Found | undefined {
  const lock = locks.find((each) => each.type === type && each.resource === resource);
  if (lock === undefined) return undefined;
  const { taskId, sinceMs } = lock;
  const owner: Subject = taskId === 0 ? { kind: "LOCK", name: lockName(lock) } : { kind: "TASK", name: String(taskId) };
  const message = `${ownerText(lock, taskOf(taskId)?.description)} is working on ${what}`;
  return { reason: "LOCKED", message, sinceMs, becauseOf: [owner], isEcho: true, isRoutine: true };
}

/** Returns a cause when the agent may have links for disks that are detached from its VM. */
function owes({ instance, owedRemovals, hostIds }: KnownVm): Found | undefined {
  const [first] = owedRemovals;
  if (first === undefined) return undefined;
  const names = owedRemovals.map(({ diskName, diskCid }) => diskName || diskCid).slice(0, SHOWN_DISKS);
  const more = owedRemovals.length > names.length ? ` and ${owedRemovals.length - names.length} more` : "";
  const where = hostIds.length === 0 ? "" : ` on host ${hostIds.join(", ")}`;
  return {
    reason: "OWES_REMOVALS",
    message: `the agent of ${shown(instance)} was unreachable when disk ${names.join(", ")}${more} was detached: the detach notification is pending, and its VM gets no other disk until the agent has confirmed it`,
    sinceMs: Math.min(...owedRemovals.map(({ sinceMs }) => sinceMs)),
    cures: [[`start its agent${where}, or repair the network to it`, ""], recreate(instance)],
    becauseOf: hostIds.map((name) => ({ kind: "HOST", name })),
  };
}

/**
 * Returns a cause when an abandoned call about the object may still run. No other call about the object is made until
 * the call has ended.
 */
function heldUp(thing: string, { callsAt, nowMs }: Known): Found | undefined {
  const [call] = callsAt(thing);
  return call && { reason: "HELD_UP", message: whyHeldUp(call, nowMs), sinceMs: call.sinceMs, isRoutine: true };
}

/** Returns true when the VM was a host that was purged. Only hosts of a fleet are VMs without a stemcell. */
export function isForgottenHost({ instance, isNowhere }: Pick<KnownVm, "instance" | "isNowhere">): boolean {
  return isNowhere && instance.stemcell === "";
}

/** A missing or unsettled VM is routine while a task works on its deployment, or the instance leaves. */
function vmState(vm: KnownVm, isBusy: boolean): Found | undefined {
  const { instance, hostIds } = vm;
  const { vmState: state, vmCid, state: wanted, leaving } = instance;
  const name = shown(instance);
  const again = way(instance, "deploy again, or run cloud-check", "cloud-check");
  const hosts = hostIds.map((host): Subject => ({ kind: "HOST", name: host }));
  const unsettled = isBusy || leaving || wanted === "detached" ? routine : cause;
  switch (state) {
    case "none":
      return wanted === "detached"
        ? routine("STOPPED", `${name} was stopped, and its VM deleted, by an operator`, [
            way(instance, "start it", "start"),
          ])
        : unsettled("NO_VM", `${name} has no VM: the task that should create it has failed or has not reached it`, [
            again,
          ]);
    case "creating":
      return unsettled("VM_UNSETTLED", `create_vm may have been called for ${name}, but its outcome is not known`, [
        again,
      ]);
    case "deleting":
      return unsettled("VM_UNSETTLED", `VM ${vmCid} of ${name} is being deleted`, [again], hosts);
    case "lost":
      return cause(
        "VM_LOST",
        `the VM of ${name} is lost: its CPI says that it is gone, or its agent did not answer in time`,
        [again],
        hosts,
      );
    default:
      if (isForgottenHost(vm))
        return cause("VM_NOWHERE", `the host of VM ${vmCid} of ${name} was purged: no disk-registry knows it`, [again]);
      return wanted === "stopped"
        ? routine("STOPPED", `the jobs of ${name} were stopped by an operator`, [way(instance, "start them", "start")])
        : undefined;
  }
}

function silence({ instance, isNatsAway, silentSinceMs, remedy, hostIds }: KnownVm): Found | undefined {
  if (isNatsAway)
    return routine("NATS_AWAY", "no agent can be reached: this director has no connection to NATS", [
      ["check that nats-server runs", "diskmesh status"],
    ]);
  if (silentSinceMs === undefined) return undefined;
  return {
    reason: "AGENT_SILENT",
    message: `the agent of ${shown(instance)} is silent; its VM is ${remedy}`,
    sinceMs: silentSinceMs,
    cures: [recreate(instance)],
    becauseOf: hostIds.map((name) => ({ kind: "HOST", name })),
  };
}

function cause(
  reason: Found["reason"],
  message: string,
  cures: readonly Cure[] = [],
  becauseOf: readonly Subject[] = [],
): Found {
  return { reason, message, cures, becauseOf };
}

/** Returns a cause that needs no action here: an operator wants it, or a task or the director's own trouble ends it. */
function routine(...about: Parameters<typeof cause>): Found {
  return { ...cause(...about), isRoutine: true };
}

const recreate = (instance: Instance): Cure => way(instance, "recreate its VM", "recreate");

/** Commands of the bosh CLI that causes offer. cloud-check applies to a deployment, the others to an instance. */
export type BoshCommand = "cloud-check" | "recreate" | "start" | "stop --hard" | "unignore";

function way(instance: Instance, what: string, command: BoshCommand): Cure {
  const slug = command === "cloud-check" ? "" : ` ${formatInstance(instance)}`;
  return [what, `bosh -d ${instance.deployment} ${command}${slug}`];
}

/** Returns the instance's name on the page and in lists, where VMs with the same trouble are one entry. */
function shown({ deployment, group, index }: Instance): string {
  return `${deployment}/${group}/${index}`;
}
