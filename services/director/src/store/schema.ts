import type { Table, Tables, Transaction } from "@diskmesh/tablet";
import type { RecordedAuthority } from "./agent-authority.js";
import type { AgentHealth } from "./agent-health.js";
import type { BoshRegistrySettings } from "./bosh-registry-settings.js";
import type { Config } from "./config.js";
import type { CpiCall } from "./cpi-call.js";
import type { DeletedDisk } from "./deleted-disk.js";
import type { Deployment } from "./deployment.js";
import type { UntoldEvent } from "./director-event.js";
import type { Disk } from "./disk.js";
import type { EndedSession } from "./ended-session.js";
import { addressKey, type Instance } from "./instance.js";
import type { LinkKey } from "./link-key.js";
import type { NodeError } from "./node-error.js";
import { type OwedRemoval, owedRemovalKey } from "./owed-removal.js";
import type { PersistentDisk } from "./persistent-disk.js";
import type { PossibleOrphan } from "./possible-orphan.js";
import type { Problem } from "./problem.js";
import type { ResurrectionSwitch } from "./resurrection-switch.js";
import { type Snapshot, snapshotKey } from "./snapshot.js";
import { formatStemcell, type Stemcell } from "./stemcell.js";
import { hasEnded, restored, type Task, type TaskQueue } from "./task.js";
import type { VendorCall } from "./vendor-call.js";

/** The last number assigned by each sequence. */
export interface Counter {
  readonly name: "config" | "problem" | "task" | "note";
  readonly value: number;
}

/** Returns a key that sorts in numeric order. */
function numberKey(value: number): string {
  return String(value).padStart(16, "0");
}

export function configKey(configId: number): string {
  return numberKey(configId);
}

export function noteKey(noteId: number): string {
  return numberKey(noteId);
}

export function problemKey(problemId: number): string {
  return numberKey(problemId);
}

/** Returns a key that sorts the oldest call first. */
export function vendorCallKey(taskId: number): string {
  return numberKey(taskId);
}

/** Returns a key that sorts the newest task first, the order of task lists. */
export function taskKey(taskId: number): string {
  return numberKey(Number.MAX_SAFE_INTEGER - taskId);
}

/** Returns a config's type and name as a key. Neither contains a space. */
export function configIdentity(config: { readonly type: string; readonly name: string }): string {
  return `${config.type} ${config.name}`;
}

/** Returns a key that separates its parts by spaces, because names and versions contain none. */
export function stemcellKey(stemcell: Pick<Stemcell, "name" | "version" | "cpi">): string {
  return `${stemcell.name} ${stemcell.version} ${stemcell.cpi}`;
}

// Tables are plain typed objects, so that the model imports only types from @diskmesh/tablet.
const table =
  <Doc>() =>
  <Index extends string>(definition: Table<Doc, Index>): Table<Doc, Index> =>
    definition;

/** Returns the index key of a queue's tasks that call the same CPIs. */
export function shareKey(queue: TaskQueue, cpiShare: string): string {
  return `${queue} ${cpiShare}`;
}

/** Returns the index key of a queue's tasks that a login started. */
export function loginKey(queue: TaskQueue, user: string): string {
  return `${queue} ${user}`;
}

export const schema = {
  stemcells: table<Stemcell>()({ key: stemcellKey, indexes: { byStemcell: formatStemcell } }),
  persistentDisks: table<PersistentDisk>()({
    key: (disk) => disk.diskId,
    indexes: {
      byDeployment: (disk) => disk.deployment,
      // Orphaned disks belong to no instance.
      byInstance: (disk) => (disk.orphanedAtMs === null && disk.role === undefined ? disk.instanceId : undefined),
      otherOfInstance: (disk) => (disk.role === undefined ? undefined : disk.instanceId),
      byCid: (disk) => (disk.diskCid === "" ? undefined : disk.diskCid),
    },
  }),
  endedSessions: table<EndedSession>()({
    key: (session) => session.sessionId,
    indexes: { byUser: (session) => session.user },
  }),
  agentAuthorities: table<RecordedAuthority>()({ key: (authority) => authority.id, indexes: {} }),
  agentHealth: table<AgentHealth>()({ key: (health) => health.agentId, indexes: {} }),
  owedRemovals: table<OwedRemoval>()({ key: owedRemovalKey, indexes: { byAgent: (owed) => owed.agentId } }),
  resurrectionSwitches: table<ResurrectionSwitch>()({ key: (each) => each.scope, indexes: {} }),
  snapshots: table<Snapshot>()({
    key: snapshotKey,
    indexes: {
      byDeployment: (snapshot) => snapshot.deployment,
      byCid: (snapshot) => (snapshot.snapshotCid === "" ? undefined : snapshot.snapshotCid),
    },
  }),
  problems: table<Problem>()({
    key: (problem) => problemKey(problem.problemId),
    indexes: { byDeployment: (problem) => problem.deployment },
  }),
  possibleOrphans: table<PossibleOrphan>()({ key: (orphan) => orphan.token, indexes: {} }),
  registrySettings: table<BoshRegistrySettings>()({
    key: (settings) => settings.id,
    indexes: { byAgent: (settings) => (settings.agentId === "" ? undefined : settings.agentId) },
  }),
  configs: table<Config>()({ key: (config) => configKey(config.configId), indexes: { byIdentity: configIdentity } }),
  deployments: table<Deployment>()({ key: (deployment) => deployment.name, indexes: {} }),
  instances: table<Instance>()({
    key: (instance) => instance.instanceId,
    indexes: {
      byDeployment: (instance) => instance.deployment,
      byStemcell: (instance) => (instance.stemcell === "" ? undefined : instance.stemcell),
      byAddress: (instance) => Object.entries(instance.ips).map(([network, ip]) => addressKey(network, ip)),
      byVmToken: (instance) => (instance.vmToken === "" ? undefined : instance.vmToken),
      byAgent: (instance) => (instance.agentId === "" ? undefined : instance.agentId),
      byVmCid: (instance) => (instance.vmCid === "" ? undefined : instance.vmCid),
    },
  }),
  disks: table<Disk>()({
    key: (disk) => disk.name,
    indexes: {
      byDeployment: (disk) => disk.deployment,
      byInstance: (disk) => (disk.instanceId === "" ? undefined : disk.instanceId),
      byHost: (disk) => disk.hostId,
      byCid: (disk) => (disk.diskCid === "" ? undefined : disk.diskCid),
    },
  }),
  deletedDisks: table<DeletedDisk>()({
    key: ({ disk }) => disk.diskCid,
    indexes: { byName: ({ disk }) => disk.name },
  }),
  tasks: table<Task>()({
    onRestore: restored,
    key: (task) => taskKey(task.taskId),
    indexes: {
      byDeployment: (task) => (task.deployment === "" ? undefined : task.deployment),
      byEnd: (task) => (hasEnded(task) ? "ended" : "live"),
      liveByQueue: (task) => (hasEnded(task) ? undefined : task.queue),
      liveByShare: (task) =>
        hasEnded(task) || task.cpiShare === undefined ? undefined : shareKey(task.queue, task.cpiShare),
      liveByLogin: (task) => (hasEnded(task) ? undefined : loginKey(task.queue, task.user)),
    },
  }),
  untoldEvents: table<UntoldEvent>()({ key: ({ noteId }) => noteKey(noteId), indexes: {} }),
  cpiCalls: table<CpiCall>()({
    key: (call) => call.callId,
    indexes: { byDispatcher: (call) => call.dispatcher, byThing: (call) => call.things },
  }),
  nodeErrors: table<NodeError>()({ key: (error) => error.nodeId, indexes: {} }),
  vendorCalls: table<VendorCall>()({
    key: (call) => vendorCallKey(call.taskId),
    indexes: { byRequest: (call) => call.request },
  }),
  linkKeys: table<LinkKey>()({ key: ({ name }) => name, indexes: {} }),
  counters: table<Counter>()({
    key: (counter) => counter.name,
    indexes: {},
    onRestore: (counter, step) => ({ ...counter, value: counter.value + step }),
  }),
};

export type DirectorSchema = typeof schema;
export type DirectorTables = Tables<DirectorSchema>;
export type DirectorTransaction = Transaction<DirectorSchema>;

/** Returns the next number of a sequence. The number is assigned only if the transaction commits. */
export function nextNumber(tx: DirectorTransaction, name: Counter["name"]): number {
  const value = (tx.counters.get(name)?.value ?? 0) + 1;
  tx.counters.put({ name, value });
  return value;
}
