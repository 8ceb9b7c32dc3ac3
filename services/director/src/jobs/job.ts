import type { AgentClient } from "@diskmesh/mbus";
import type { Clock } from "@diskmesh/service";
import type { DirectorConfig } from "../config.js";
import type { CpiCalls } from "../cpi/cpi-calls.js";
import type { LockName } from "../model/locks.js";
import type { JobOf, JobType } from "../model/task.js";
import type { DirectorTables, DirectorTablet } from "../schema.js";
import type { StemcellFiles } from "../stemcells/stemcell-files.js";
import type { TaskRun } from "../workers/task-run.js";
import type { CloudConfigs } from "../yaml/cloud-configs.js";
import type { CpiConfigs } from "../yaml/cpi-configs.js";
import type { Manifests } from "../yaml/manifests.js";

/** The bosh-registry HTTP API, for VMs whose CPI or stemcell is of version 1. */
export interface BoshRegistryServing {
  /** Before a CPI or an agent needs it. */
  ensureServing(): Promise<void>;
}

/** What jobs work with. */
export interface JobContext {
  readonly config: DirectorConfig;
  readonly tablet: DirectorTablet;
  readonly cpi: CpiCalls;
  readonly agents: AgentClient;
  readonly cloudConfigs: CloudConfigs;
  readonly cpiConfigs: CpiConfigs;
  readonly manifests: Manifests;
  readonly boshRegistry: BoshRegistryServing;
  readonly stemcellFiles: StemcellFiles;
  readonly clock: Clock;
  readonly newId: () => string;
  /** In [0, 1), for jitter. */
  readonly random: () => number;
}

/** The next thing to do for a task, and the locks under which. */
export interface Step {
  /** In the order of locks. */
  readonly locks: readonly LockName[];
  /** All CPIs that the task may have to ask, as far as is known now, by their present names: see WorkerShares. */
  readonly cpis: readonly string[];
  /** Returns the task's result when it is through, nothing when there is more to do. Throws to fail the task. */
  run(run: TaskRun): Promise<string | undefined>;
}

/**
 * Says what comes next from what is recorded, so that it never matters who did the steps before, or how far the last
 * one got. It is asked before the locks are taken and again once they are held; only then its step is run. Throws
 * when the task cannot be done.
 */
export type Planner<Type extends JobType> = (
  context: JobContext,
  job: JobOf<Type>,
  tables: DirectorTables,
  taskId: number,
) => Step;
export type Planners = { readonly [Type in JobType]: Planner<Type> };
