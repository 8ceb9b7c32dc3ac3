import { serviceCauses } from "@diskmesh/tablet-admin";
import { isShutOut } from "../agents/agent-key.js";
import { decideResurrections, isWatched, watchedVms } from "../health/resurrection.js";
import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import { type DirectorTables, taskKey } from "../store/schema.js";
import type { Task } from "../store/task.js";
import type { TaskEvent } from "../tasks/task-event.js";
import { DIRECTOR, type Known, type KnownVm } from "./cause.js";
import type { ExplainContext } from "./context.js";

/** Facts that are not in the tables. */
export interface LookedUp {
  /** The requested task, which may be stored outside the tables. */
  readonly task: Task | undefined;
  /** Unfinished steps by task id. */
  readonly steps: ReadonlyMap<number, readonly TaskEvent[]>;
  /** Hosts by VM CID. */
  readonly hosts: ReadonlyMap<string, Pick<KnownVm, "hostIds" | "isNowhere">>;
}

/** Nothing is looked up: the answer is about records of the tables alone. */
export const NOTHING_LOOKED_UP: LookedUp = { task: undefined, steps: new Map(), hosts: new Map() };

/** The sources of what is known. */
export interface KnownContext
  extends Pick<ExplainContext, "limits" | "clock" | "configs" | "callRecords" | "report" | "agentsAreHeard"> {
  readonly locks: Pick<ExplainContext["locks"], "list">;
  readonly agentHealths: Pick<ExplainContext["agentHealths"], "shown">;
}

export function whatIsKnown(context: KnownContext, tables: DirectorTables, { task, steps, hosts }: LookedUp): Known {
  const { callRecords } = context;
  let busy: ReadonlySet<string> | undefined;
  // The remedies of all VMs, computed together at the first silent VM.
  let remedies: RemedyOf | undefined;
  const remedyOf: RemedyOf = (instance) => {
    remedies ??= remediesIn(context, tables);
    return remedies(instance);
  };
  return {
    taskOf: (taskId) => tables.tasks.get(taskKey(taskId)) ?? (task?.taskId === taskId ? task : undefined),
    locks: context.locks.list(),
    openSteps: (taskId) => steps.get(taskId) ?? [],
    liveIn: (queue) => tables.tasks.count("liveByQueue", queue),
    callsOf: (taskId) => callRecords.awaited.filter((call) => call.taskId === taskId),
    retriesOf: (taskId) => [...callRecords.retried].filter((call) => call.taskId === taskId),
    dispatcherNeed: () => {
      const found = serviceCauses(DIRECTOR, context.report()).find(({ reason }) => reason === "DISPATCHER_AWAY");
      return found && { ...found, reason: "DISPATCHER_AWAY" };
    },
    callsAt: (thing) => [...tables.cpiCalls.by("byThing", thing)].filter((call) => callRecords.isLeft(call)),
    nowMs: context.clock.nowMs(),
    stuckAfterMs: context.limits.page.stuckAfterMs,
    isBusy: (deployment) => {
      busy ??= new Set([...tables.tasks.by("byEnd", "live")].map((each) => each.deployment));
      return busy.has(deployment);
    },
    vmOf: (name) => {
      const instance = recordedInstance(tables, name);
      const places = (instance && hosts.get(instance.vmCid)) ?? { hostIds: [], isNowhere: false };
      return instance && knownVm(context, tables, instance, places, remedyOf);
    },
    diskOf: (name) => recordedDisk(tables, name),
  };
}

/** Returns the instance with the given instance id, agent id, VM CID, or "DEPLOYMENT/GROUP/INDEX-or-ID". */
export function recordedInstance(tables: DirectorTables, name: string): Instance | undefined {
  const byId = tables.instances.get(name);
  if (byId !== undefined) return byId;
  for (const index of ["byAgent", "byVmCid"] as const)
    for (const instance of tables.instances.by(index, name)) return instance;
  const [deployment = "", group, which, ...rest] = name.split("/");
  if (which === undefined || rest.length > 0) return undefined;
  return [...tables.instances.by("byDeployment", deployment)].find(
    (each) => each.group === group && (String(each.index) === which || each.instanceId === which),
  );
}

/** Returns a dynamic disk by name, or any disk by id or CID. */
export function recordedDisk(tables: DirectorTables, name: string): Disk | PersistentDisk | undefined {
  const byName = tables.disks.get(name) ?? tables.persistentDisks.get(name);
  if (byName !== undefined) return byName;
  const [disk] = [...tables.disks.by("byCid", name), ...tables.persistentDisks.by("byCid", name)];
  return disk;
}

function knownVm(
  { agentHealths, clock, agentsAreHeard }: KnownContext,
  tables: DirectorTables,
  instance: Instance,
  { hostIds, isNowhere }: Pick<KnownVm, "hostIds" | "isNowhere">,
  remedyOf: RemedyOf,
): KnownVm {
  const nowMs = clock.nowMs();
  const { agentId, instanceId } = instance;
  const isNatsAway = !agentsAreHeard();
  const { health, silentMs, isResponsive } = agentHealths.shown(agentId);
  const isSilent = isWatched(instance) && !isResponsive && !isNatsAway;
  const persistent = [...tables.persistentDisks.by("byInstance", instanceId)];
  return {
    instance,
    isNatsAway,
    silentSinceMs: isSilent ? (health?.heardAtMs ?? nowMs - silentMs) : undefined,
    remedy: isSilent ? remedyOf(instance) : "",
    isShutOut: agentId !== "" && isShutOut(instance.agentKeys, nowMs),
    owedRemovals: agentId === "" ? [] : [...tables.owedRemovals.by("byAgent", agentId)],
    disks: [...tables.disks.by("byInstance", instanceId), ...persistent],
    hostIds,
    isNowhere,
  };
}

type RemedyOf = (instance: Instance) => string;

/** Returns a function with the resurrector's decision for a VM. The decision for a VM depends on all silent VMs. */
function remediesIn({ agentHealths, clock, limits, configs }: KnownContext, tables: DirectorTables): RemedyOf {
  const { resurrection } = limits;
  const silentMsOf = (agentId: string): number => agentHealths.shown(agentId).silentMs;
  const watched = watchedVms(tables, silentMsOf, configs.resurrection.wishes(tables), clock.nowMs());
  const isOn = new Set(watched.filter((vm) => vm.isOn).map(({ instance }) => instance.instanceId));
  const verdicts = new Map(decideResurrections(watched, resurrection).map((each) => [each.instance.instanceId, each]));
  const { silentAfterMs, deadAfterMs } = resurrection;
  return ({ instanceId }) => {
    if (!isOn.has(instanceId))
      return "not recreated automatically: an operator or a resurrection config has switched resurrection off for it";
    const verdict = verdicts.get(instanceId);
    if (verdict?.do === "hold") return `not recreated automatically: ${verdict.because}`;
    if (verdict?.do === "make_anew" && verdict.isDead) return "recreated automatically, because it counts as dead";
    return `recreated automatically after ${silentAfterMs / 1_000} s of silence if its CPI says that it is gone, else after ${deadAfterMs / 1_000} s`;
  };
}
