import type {
  AgentHealth,
  DynamicDisk,
  Lock,
  Config as WireConfig,
  Deployment as WireDeployment,
  Instance as WireInstance,
  OwedRemoval as WireOwedRemoval,
  PersistentDisk as WirePersistentDisk,
  PossibleOrphan as WirePossibleOrphan,
  Problem as WireProblem,
  Snapshot as WireSnapshot,
  Stemcell as WireStemcell,
  Task as WireTask,
  TaskEvent as WireTaskEvent,
} from "@diskmesh/api/director";
import { TaskQueue as WireTaskQueue, TaskState as WireTaskState } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import { UNRESPONSIVE } from "./model/agent-health.js";
import type { Config } from "./model/config.js";
import type { Deployment } from "./model/deployment.js";
import type { Disk } from "./model/disk.js";
import type { Instance } from "./model/instance.js";
import type { ShownLock } from "./model/locks.js";
import type { OwedRemoval } from "./model/owed-removal.js";
import type { PersistentDisk } from "./model/persistent-disk.js";
import type { PossibleOrphan } from "./model/possible-orphan.js";
import { defaultResolution, type Problem, planOf, resolutionsOf } from "./model/problem.js";
import type { Snapshot } from "./model/snapshot.js";
import type { Stemcell } from "./model/stemcell.js";
import type { Task, TaskQueue, TaskState } from "./model/task.js";
import type { TaskEvent } from "./model/task-event.js";
import type { ShownHealth } from "./workers/agent-healths.js";

const TASK_STATES: Readonly<Record<TaskState, WireTaskState>> = {
  queued: WireTaskState.QUEUED,
  processing: WireTaskState.PROCESSING,
  held: WireTaskState.HELD,
  cancelling: WireTaskState.CANCELLING,
  done: WireTaskState.DONE,
  error: WireTaskState.ERROR,
  cancelled: WireTaskState.CANCELLED,
  timeout: WireTaskState.TIMEOUT,
};

const TASK_QUEUES: Readonly<Record<TaskQueue, WireTaskQueue>> = {
  urgent: WireTaskQueue.URGENT,
  normal: WireTaskQueue.NORMAL,
  dynamic_disks: WireTaskQueue.DYNAMIC_DISKS,
  vendor_methods: WireTaskQueue.VENDOR_METHODS,
};

/** Undefined for a state that no task can be in. */
export function decodeTaskState(state: WireTaskState): TaskState | undefined {
  return (Object.keys(TASK_STATES) as TaskState[]).find((each) => TASK_STATES[each] === state);
}

export function encodeTask(task: Task): WireTask {
  const { taskId, type, description, result, user, deployment, attempts, contextId = "", teams = [] } = task;
  return {
    taskId,
    type,
    description,
    state: TASK_STATES[task.state],
    queue: TASK_QUEUES[task.queue],
    result,
    user,
    deployment,
    attempts,
    contextId,
    teams: [...teams],
    createdAt: new Date(task.createdAtMs),
    startedAt: task.startedAtMs === null ? undefined : new Date(task.startedAtMs),
    endedAt: task.endedAtMs === null ? undefined : new Date(task.endedAtMs),
  };
}

export function encodeTaskEvent(event: TaskEvent, index: number): WireTaskEvent {
  const { timeMs, stage, tags, total, task, index: stageIndex, state, message } = event;
  return { index, time: new Date(timeMs), stage, task, state, message, tags: [...tags], total, stageIndex };
}

export function encodeDisk(disk: Disk): DynamicDisk {
  return {
    diskName: disk.name,
    diskCid: disk.diskCid,
    deployment: disk.deployment,
    instanceId: disk.instanceId,
    attachmentId: disk.instanceId === "" ? "" : disk.attachmentId,
    vmCid: disk.vmCid,
    az: disk.az,
    sizeBytes: disk.sizeMib * MIB_BYTES,
    diskPoolName: disk.pool,
    cpi: disk.cpi,
    metadata: { ...disk.metadata },
    diskHint: disk.hint ?? undefined,
  };
}

export function encodeInstance(instance: Instance, shown: ShownHealth | undefined): WireInstance {
  const { instanceId, deployment, group, index, az, vmCid, agentId, cpi } = instance;
  const { stemcell, stemcellApiVersion, cpiApiVersion, usesRegistry } = instance;
  const vm = {
    stemcell,
    stemcellApiVersion,
    cpiApiVersion,
    usesRegistry,
    networks: { ...instance.networks },
    vmState: instance.vmState,
    state: instance.state ?? "started",
    jobsState: instance.jobs ?? "started",
    ignore: instance.ignore ?? false,
    agentHealth: shown && encodeAgentHealth(shown),
  };
  return { instanceId, deployment, group, index, az, vmCid, agentId, cpi, ...vm };
}

function encodeAgentHealth({ health, isResponsive }: ShownHealth): AgentHealth {
  return {
    jobState: isResponsive ? (health?.jobState ?? "") : UNRESPONSIVE,
    lastHeardAt: health && new Date(health.heardAtMs),
    vitals: { ...health?.vitals },
  };
}

export function encodePersistentDisk(disk: PersistentDisk): WirePersistentDisk {
  const { diskId, diskCid, deployment, group, instanceId, vmCid, az, sizeMib, cpi, hint, orphanedAtMs, state } = disk;
  return {
    persistentDiskId: diskId,
    diskCid,
    deployment,
    group,
    instanceId,
    vmCid,
    az,
    sizeBytes: sizeMib * MIB_BYTES,
    cpi,
    diskHint: hint ?? undefined,
    orphanedAt: orphanedAtMs === null ? undefined : new Date(orphanedAtMs),
    state,
  };
}

export function encodeOwedRemoval({ sinceMs, ...owed }: OwedRemoval): WireOwedRemoval {
  return { ...owed, since: new Date(sinceMs) };
}

export function encodePossibleOrphan({ sinceMs, cid = "", ...orphan }: PossibleOrphan): WirePossibleOrphan {
  return { ...orphan, cid, since: new Date(sinceMs) };
}

export function encodeProblem(problem: Problem): WireProblem {
  const { problemId, deployment, type, description, group, instanceId, vmCid, diskCid, foundAtMs, outcome } = problem;
  return {
    problemId,
    deployment,
    type,
    description,
    instanceGroup: group,
    instanceId,
    vmCid,
    diskCid,
    resolutions: resolutionsOf(problem).map((name) => ({ name, plan: planOf(name) })),
    defaultResolution: defaultResolution(problem),
    foundAt: new Date(foundAtMs),
    lastError: outcome,
  };
}

export function encodeStemcell(stemcell: Stemcell, deployments: readonly string[]): WireStemcell {
  const { name, version, operatingSystem, apiVersion, cpi, stemcellCid, createdAtMs } = stemcell;
  return {
    name,
    version,
    operatingSystem,
    apiVersion,
    cpi,
    stemcellCid,
    deployments: [...deployments],
    createdAt: new Date(createdAtMs),
  };
}

export function encodeDeployment({ name, manifest, teams = [] }: Deployment): WireDeployment {
  return { name, manifest, teams: [...teams] };
}

export function encodeConfig(config: Config): WireConfig {
  const { configId, type, name, content, createdAtMs } = config;
  return { configId, type, name, content, createdAt: new Date(createdAtMs) };
}

export function encodeLock(lock: ShownLock): Lock {
  const { type, resource, taskId, deadlineAtMs, waitingTaskIds } = lock;
  const deadline = new Date(deadlineAtMs);
  return { type, resource, taskId, deadline, waitingTaskIds: [...waitingTaskIds] };
}

export function encodeSnapshot(snapshot: Snapshot): WireSnapshot {
  const { snapshotCid, deployment, group, instanceId, index, diskCid, cpi, createdAtMs } = snapshot;
  return { snapshotCid, deployment, group, instanceId, index, diskCid, cpi, createdAt: new Date(createdAtMs) };
}
