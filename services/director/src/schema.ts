import { checkOf, shapeOf, type Tables, type Tablet, type Transaction, table } from "@diskmesh/tablet";
import { z } from "zod";
import type { BoshRegistrySettings } from "./model/bosh-registry-settings.js";
import type { Config } from "./model/config.js";
import type { Deployment } from "./model/deployment.js";
import type { Disk } from "./model/disk.js";
import type { Instance } from "./model/instance.js";
import type { PersistentDisk } from "./model/persistent-disk.js";
import type { PossibleOrphan } from "./model/possible-orphan.js";
import { formatStemcell, type Stemcell } from "./model/stemcell.js";
import { hasEnded, restored, type Task } from "./model/task.js";
import {
  boshRegistrySettingsShape,
  configShape,
  deploymentShape,
  diskShape,
  instanceShape,
  persistentDiskShape,
  possibleOrphanShape,
  stemcellShape,
  taskShape,
} from "./shapes.js";

/** The last number given out, by what is counted. */
interface Counter {
  readonly name: "config" | "task";
  readonly value: number;
}

const counterShape = shapeOf<Counter>()({ name: z.enum(["config", "task"]), value: z.int().min(0) });

/** Numbers as keys that sort as the numbers do. */
export function configKey(configId: number): string {
  return String(configId).padStart(16, "0");
}

/** Sorts the newest task first, which is how tasks are listed. */
export function taskKey(taskId: number): string {
  return configKey(Number.MAX_SAFE_INTEGER - taskId);
}

/** Type and name of a config as one value. Neither holds a space. */
export function configIdentity(config: { readonly type: string; readonly name: string }): string {
  return `${config.type} ${config.name}`;
}

/** Names and versions hold no spaces. */
export function stemcellKey(stemcell: Pick<Stemcell, "name" | "version" | "cpi">): string {
  return `${stemcell.name} ${stemcell.version} ${stemcell.cpi}`;
}

/** The director's tablet. */
export const schema = {
  stemcells: table<Stemcell>()({
    key: stemcellKey,
    indexes: { byStemcell: formatStemcell },
    check: checkOf(stemcellShape),
  }),
  persistentDisks: table<PersistentDisk>()({
    check: checkOf(persistentDiskShape),
    key: (disk) => disk.diskId,
    indexes: {
      byDeployment: (disk) => disk.deployment,
      // An orphan is no instance's any more.
      byInstance: (disk) => (disk.orphanedAtMs === null ? disk.instanceId : undefined),
      byCid: (disk) => (disk.diskCid === "" ? undefined : disk.diskCid),
    },
  }),
  possibleOrphans: table<PossibleOrphan>()({ key: (orphan) => orphan.token, check: checkOf(possibleOrphanShape) }),
  registrySettings: table<BoshRegistrySettings>()({
    check: checkOf(boshRegistrySettingsShape),
    key: (settings) => settings.id,
    indexes: { byAgent: (settings) => (settings.agentId === "" ? undefined : settings.agentId) },
  }),
  configs: table<Config>()({
    key: (config) => configKey(config.configId),
    indexes: { byIdentity: configIdentity },
    check: checkOf(configShape),
  }),
  deployments: table<Deployment>()({ key: (deployment) => deployment.name, check: checkOf(deploymentShape) }),
  instances: table<Instance>()({
    check: checkOf(instanceShape),
    key: (instance) => instance.instanceId,
    indexes: {
      byDeployment: (instance) => instance.deployment,
      byStemcell: (instance) => (instance.stemcell === "" ? undefined : instance.stemcell),
      byRegistry: (instance) => (instance.usesRegistry ? "yes" : undefined),
    },
  }),
  disks: table<Disk>()({
    check: checkOf(diskShape),
    key: (disk) => disk.name,
    indexes: {
      byDeployment: (disk) => disk.deployment,
      byInstance: (disk) => (disk.instanceId === "" ? undefined : disk.instanceId),
      byCid: (disk) => (disk.diskCid === "" ? undefined : disk.diskCid),
    },
  }),
  tasks: table<Task>()({
    check: checkOf(taskShape),
    onRestore: restored,
    key: (task) => taskKey(task.taskId),
    indexes: {
      byDeployment: (task) => (task.deployment === "" ? undefined : task.deployment),
      byEnd: (task) => (hasEnded(task) ? "ended" : "live"),
      liveByQueue: (task) => (hasEnded(task) ? undefined : task.queue),
    },
  }),
  counters: table<Counter>()({
    check: checkOf(counterShape),
    key: (counter) => counter.name,
    onRestore: (counter, step) => ({ ...counter, value: counter.value + step }),
  }),
};

export type DirectorSchema = typeof schema;
export type DirectorTablet = Tablet<DirectorSchema>;
export type DirectorTables = Tables<DirectorSchema>;
export type DirectorTransaction = Transaction<DirectorSchema>;

/** The next number of what is counted; it is given out with the transaction, or not at all. */
export function nextNumber(tx: DirectorTransaction, name: Counter["name"]): number {
  const value = (tx.counters.get(name)?.value ?? 0) + 1;
  tx.counters.put({ name, value });
  return value;
}
