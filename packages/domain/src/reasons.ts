/** The gRPC codes that diskmesh answers with, apart from OK. */
export type StatusCode =
  | "INVALID_ARGUMENT"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "FAILED_PRECONDITION"
  | "PERMISSION_DENIED"
  | "UNAUTHENTICATED"
  | "RESOURCE_EXHAUSTED"
  | "ABORTED"
  | "UNAVAILABLE"
  | "DEADLINE_EXCEEDED"
  | "CANCELLED"
  | "UNIMPLEMENTED"
  | "INTERNAL";

interface ReasonEntry {
  /** gRPC code of every error with this reason. */
  readonly code: StatusCode;
  readonly meaning: string;
  /** Action that resolves the error. */
  readonly cure: string;
}

/**
 * Every value of `google.rpc.ErrorInfo.reason` in the domain `diskmesh`. Clients branch on these names, so a published
 * name keeps its meaning and its code. `npm run reference` generates docs/reference/errors.md from this table.
 */
export const REASONS = {
  INVALID_ARGUMENT: {
    code: "INVALID_ARGUMENT",
    meaning: "The request is malformed. `BadRequest` names the field where one field is to blame.",
    cure: "Correct the request.",
  },
  NOT_FOUND: {
    code: "NOT_FOUND",
    meaning: "A thing that the request names does not exist. The metadata name its kind and id.",
    cure: "Check the id. A list shows what there is.",
  },
  VM_NOT_FOUND: {
    code: "NOT_FOUND",
    meaning: "The CPI knows no such VM.",
    cure: "Scan the deployment (`bosh cloud-check`), and recreate the VM.",
  },
  DISK_NOT_FOUND: {
    code: "NOT_FOUND",
    meaning: "The CPI knows no such disk.",
    cure: "Scan the deployment, and delete the reference or bring the disk back in the infrastructure.",
  },
  NETWORK_NOT_FOUND: {
    code: "NOT_FOUND",
    meaning: "The CPI knows no such network.",
    cure: "Correct the network in the cloud config, and deploy again.",
  },
  ALREADY_EXISTS: {
    code: "ALREADY_EXISTS",
    meaning: "The id belongs to a thing with other properties.",
    cure: "Choose another id, or ask for the properties that the existing thing has.",
  },
  INVALID_STATE: {
    code: "FAILED_PRECONDITION",
    meaning: "The state of a named thing forbids the call. The message says which state.",
    cure: "The message says what to change first. `diskmesh why` names the command.",
  },
  DISK_IN_USE: {
    code: "FAILED_PRECONDITION",
    meaning: "The disk is published or attached, or is on its way to or from a host or VM.",
    cure: "Unpublish or detach the disk first.",
  },
  DISK_DIFFERS: {
    code: "FAILED_PRECONDITION",
    meaning: "A disk with this name exists with another deployment, AZ, CPI, size or pool.",
    cure: "Choose another name, or ask with the properties that the disk has.",
  },
  BEING_DELETED: {
    code: "FAILED_PRECONDITION",
    meaning: "An unfinished deletion of the deployment, disk or stemcell forbids everything else.",
    cure: "Repeat the deletion until it ends.",
  },
  HOST_BEING_REMOVED: {
    code: "FAILED_PRECONDITION",
    meaning: "The host is being removed from the fleet and takes no disks.",
    cure: "Choose another host, or keep this one with AddHost.",
  },
  INSTANCE_IGNORED: {
    code: "FAILED_PRECONDITION",
    meaning: "An instance that the call would change is ignored.",
    cure: "Unignore the instance first.",
  },
  NO_ACTIVE_VM: {
    code: "FAILED_PRECONDITION",
    meaning: "The instance has no VM that could take a disk.",
    cure: "Deploy again.",
  },
  NOT_IN_CLOUD_CONFIG: {
    code: "FAILED_PRECONDITION",
    meaning: "No cloud config defines the named AZ, network, disk type, VM type or VM extension.",
    cure: "Update the cloud config, or use a name that it defines.",
  },
  NO_FREE_ADDRESS: {
    code: "FAILED_PRECONDITION",
    meaning: "The network has no free address in the AZ.",
    cure: "Enlarge a subnet, or reserve less.",
  },
  STEMCELL_IN_USE: {
    code: "FAILED_PRECONDITION",
    meaning: "Deployments use the stemcell.",
    cure: "Delete these deployments, or force the deletion.",
  },
  TASK_ENDED: {
    code: "FAILED_PRECONDITION",
    meaning: "The task has ended and cannot be cancelled.",
    cure: "Read its result.",
  },
  FEATURE_OFF: {
    code: "FAILED_PRECONDITION",
    meaning: "The director's config leaves the feature off.",
    cure: "Set the config key that the message names.",
  },
  OUTDATED: {
    code: "FAILED_PRECONDITION",
    meaning: "The stamp or session number of an order is below one that the receiver has seen.",
    cure: "Do nothing: a newer order or session has replaced this one.",
  },
  DISK_NOT_ATTACHED: {
    code: "FAILED_PRECONDITION",
    meaning: "The CPI says that the disk is not attached to the VM.",
    cure: "Nothing is left to detach. Repeat the request, which then ends.",
  },
  VM_CREATION_FAILED: {
    code: "FAILED_PRECONDITION",
    meaning: "The CPI created no VM. The metadata `ok_to_retry` is `true` when the CPI recommends a retry.",
    cure: "Try again where `ok_to_retry` is `true`. Else see the CPI's output of the task, mend the infrastructure, and deploy again.",
  },
  CPI_FAILED: {
    code: "FAILED_PRECONDITION",
    meaning: "The CPI failed with its own error type, given by the metadata `cpi_error_type`.",
    cure: "See the task's `cpi` and `debug` outputs.",
  },
  CPI_UNUSABLE: {
    code: "FAILED_PRECONDITION",
    meaning: "The CPI was not called: its name is unknown, its description is wrong, or its executable is missing.",
    cure: "`ListCpis` says what is wrong with the CPI. Mend its job or its cpi-config; no restart is needed.",
  },
  POSSIBLY_ELSEWHERE: {
    code: "FAILED_PRECONDITION",
    meaning:
      "The CPI does not have the VM, disk or snapshot to delete, and the other CPIs did not say which of them has it.",
    cure: "Mend the CPIs that the message names, then delete the object by its CID: `bosh delete-vm`, `bosh delete-disk`.",
  },
  CPI_CONFIG_UNKNOWN: {
    code: "FAILED_PRECONDITION",
    meaning: "The dispatcher does not have this version of the cpi-config.",
    cure: "Do nothing: the director tells the dispatcher its cpi-config and calls again.",
  },
  CPI_CONFIG_INVALID: {
    code: "FAILED_PRECONDITION",
    meaning: "The cpi-config contradicts itself or this dispatcher.",
    cure: "Correct the cpi-config. The message names the CPI.",
  },
  AGENT: {
    code: "FAILED_PRECONDITION",
    meaning: "The agent of a VM answered that the method failed.",
    cure: "The message is the agent's. See its log on the VM.",
  },
  PERMISSION_DENIED: {
    code: "PERMISSION_DENIED",
    meaning: "The role of the caller does not allow the call.",
    cure: "Use a certificate with one of the roles that the message names, or a login with such a scope.",
  },
  UNAUTHENTICATED: {
    code: "UNAUTHENTICATED",
    meaning: "The caller did not prove its identity.",
    cure: "Present a certificate of the mesh that has not expired and is not revoked, or log in.",
  },
  RESOURCE_EXHAUSTED: {
    code: "RESOURCE_EXHAUSTED",
    meaning: "A limit on size or number is reached. The message names it.",
    cure: "Wait and try again. If the error stays, add room, or raise the limit that the message names if it is a key of the configuration.",
  },
  QUEUE_FULL: {
    code: "RESOURCE_EXHAUSTED",
    meaning: "The limit of running or waiting calls, streams or tasks is reached.",
    cure: "Retry after the delay of `RetryInfo`, or end some.",
  },
  NO_DEVICES_FIT: {
    code: "RESOURCE_EXHAUSTED",
    meaning: "The free devices of the pool in that place cannot hold the disk.",
    cure: "Retry where `RetryInfo` is given: devices are being erased or attached. Else add devices or delete disks.",
  },
  NO_HOST_FREE: {
    code: "RESOURCE_EXHAUSTED",
    meaning: "Every host of the AZ that could become a VM is taken or unfit.",
    cure: "Add a host, or delete a VM.",
  },
  NO_DISK_SPACE: {
    code: "RESOURCE_EXHAUSTED",
    meaning: "The CPI has no space for the disk.",
    cure: "Add hosts or drives, or delete disks. `diskmesh why pool POOL` shows what uses the bytes.",
  },
  ABORTED: {
    code: "ABORTED",
    meaning: "Another request came in between.",
    cure: "Read the state again, and repeat the request.",
  },
  NODE_LOCKED: {
    code: "ABORTED",
    meaning: "Another vendor method or task holds the lock of the node. The metadata `holder` describes it.",
    cure: "Retry after the delay of `RetryInfo`, or set `wait`.",
  },
  CONFIG_CHANGED: {
    code: "ABORTED",
    meaning: "The config has a newer version than the request expects.",
    cure: "Read the latest version, apply the change to it, and ask again.",
  },
  UNAVAILABLE: {
    code: "UNAVAILABLE",
    meaning:
      "The server, or something that it needs, cannot be reached. The metadata `outcome` is `unknown` when the call may have taken effect.",
    cure: "Try again. If the error stays, `diskmesh status` says what is away.",
  },
  NOT_LEADER: {
    code: "UNAVAILABLE",
    meaning:
      "The process does not lead and did nothing. The metadata `leader_address` is the leader's address, or empty while none is known.",
    cure: "Call the leader, or retry after the delay of `RetryInfo`.",
  },
  FENCED: {
    code: "UNAVAILABLE",
    meaning: "Another process took over the lead during the call.",
    cure: "Try again: another process leads now.",
  },
  DISK_FULL: {
    code: "UNAVAILABLE",
    meaning: "A disk of the server is full.",
    cure: "Free space in the folder that the message names. The service continues by itself.",
  },
  INVALID_CPI_RESPONSE: {
    code: "UNAVAILABLE",
    meaning: "The CPI ended without a valid answer, so the call may have taken effect.",
    cure: "The CPI has a bug, or its process printed something else to stdout: the task's `cpi` output has the beginning.",
  },
  TIMEOUT: {
    code: "DEADLINE_EXCEEDED",
    meaning: "The time limit passed. The call may have taken effect.",
    cure: "Check whether it was done, or repeat the same request.",
  },
  CANCELLED: {
    code: "CANCELLED",
    meaning: "The caller gave up. The call may have taken effect.",
    cure: "Check whether it was done, or repeat the same request.",
  },
  NOT_IMPLEMENTED: {
    code: "UNIMPLEMENTED",
    meaning: "The server, CPI or agent does not offer the method.",
    cure: "Use another method, or a CPI that has this one. `ListCpis` shows what each has.",
  },
  NOT_SUPPORTED: {
    code: "UNIMPLEMENTED",
    meaning: "The CPI knows the method and refuses it.",
    cure: "Change the request: the message says what the CPI cannot do.",
  },
  DEVICE_IO: {
    code: "INTERNAL",
    meaning: "A device failed to read or write.",
    cure: "See `diskmesh why device DEVICE`. Remove the drive, swap it, and set the device ONLINE.",
  },
  DRIVER: {
    code: "INTERNAL",
    meaning: "A vendor's driver, or its method, failed.",
    cure: "The message is the vendor's. See the log of the agent or director, and `ListDrivers`.",
  },
  CPI_CALL: {
    code: "INTERNAL",
    meaning: "A CPI call of a task failed by a bug.",
    cure: "The message names the CPI and its method. See the task's `cpi` and `debug` outputs.",
  },
  AGENT_NOT_TOLD: {
    code: "INTERNAL",
    meaning: "The disk is attached to the VM, but the VM's agent was not notified.",
    cure: "Repeat the request once the agent answers again. The disk stays attached.",
  },
  INSTANCES_FAILED: {
    code: "INTERNAL",
    meaning: "Several instances of a task failed, each for a reason of its own.",
    cure: "Each instance's error is in the result and the events. Repair these, and repeat: the next task begins with these instances.",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;

/** Name of a reason in REASONS. */
export type Reason = keyof typeof REASONS;

/** Names of the reasons with one gRPC code. */
export type ReasonOf<Code extends StatusCode> = {
  [Name in Reason]: (typeof REASONS)[Name]["code"] extends Code ? Name : never;
}[Reason];

/** Returns true for a reason in the table. */
export function isReason(text: string): text is Reason {
  return Object.hasOwn(REASONS, text);
}
