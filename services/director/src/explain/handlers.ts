import {
  type Cause,
  type ExplainRequest,
  type ExplainResponse,
  SubjectKind,
  type Subject as SubjectMessage,
} from "@diskmesh/api/common";
import { InvalidArgumentError, messageOf, NotFoundError, NotImplementedError, otherNames } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { explanation } from "@diskmesh/tablet-admin";
import { lockName } from "../locks/locks.js";
import { formatInstance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import type { Task } from "../store/task.js";
import { parseTaskId } from "../tasks/parse.js";
import type { TaskEvent } from "../tasks/task-event.js";
import type { Known, KnownVm, Subject } from "./cause.js";
import type { ExplainContext } from "./context.js";
import { causesOf, openSteps } from "./explain.js";
import { placeCause } from "./explain-place.js";
import { useCauses } from "./explain-vm.js";
import { type LookedUp, NOTHING_LOOKED_UP, recordedDisk, recordedInstance, whatIsKnown } from "./known.js";

/** Number of latest events of a task that are searched for unfinished steps. */
const EVENTS_SEEN = 1_000;
/** Maximum number of tasks whose steps are read. */
const MAX_LOOKED_UP = 50;
const MAX_JOINED = 10;

/**
 * Returns the director's own causes, followed by the disk registries' causes of the hosts, pools and disks in the
 * chain.
 */
export async function explain(context: ExplainContext, request: ExplainRequest, call: Asked): Promise<ExplainResponse> {
  const subject = subjectOf(request.subject);
  const own = await ownAnswer(context, subject, call);
  if (own === undefined) {
    const answer = await withUses(context, await ofRegistries(context, subject, call));
    const unrecorded = subject.kind === "DISK" ? "; this director has no record of it" : "";
    return { ...answer, summary: `${answer.summary}${unrecorded}` };
  }
  const { answer, elsewhere, silent } = own;
  const asked = elsewhere.slice(0, MAX_JOINED);
  const joined = await Promise.all(asked.map((each) => answerElsewhere(context, each, call)));
  const told = subject.kind === "DISK" ? joined[asked.findIndex(({ kind }) => kind === "DISK")]?.summary : undefined;
  const summary = told ? `${answer.summary}; its disk-registry: ${told}` : answer.summary;
  const differs = subject.kind === "DISK" ? await placeOf(context, subject.name, call) : [];
  const all = [...differs, ...answer.causes, ...silent, ...joined.flatMap(({ causes }) => causes)];
  return { summary, causes: eachOnce(all) };
}

/** Returns the contradiction between this director's record of the disk and that of its registry, if there is one. */
async function placeOf({ tablet, registries }: ExplainContext, name: string, call: Asked): Promise<readonly Cause[]> {
  const disk = await tablet.read((tables) => recordedDisk(tables, name));
  if (disk === undefined || disk.diskCid === "") return [];
  try {
    const found = placeCause(disk, await registries.recordOfDisk(disk.diskCid, call));
    if (found === undefined) return [];
    const subject = { kind: "DISK", name } as const;
    return explanation("", subject, () => [{ subject, ...found }]).causes;
  } catch {
    call.signal.throwIfAborted();
    // A registry that does not answer has a cause of its own.
    return [];
  }
}

/** Drops repeated causes: a disk may be explained with its host and by itself. */
function eachOnce(causes: readonly Cause[]): Cause[] {
  const keyOf = ({ subject, reason, message }: Cause) => `${subject?.kind} ${subject?.name} ${reason} ${message}`;
  return [...new Map(causes.map((cause) => [keyOf(cause), cause])).values()];
}

/** The caller's signal, which ends all lookups. */
type Asked = Pick<CallContext, "signal">;

function subjectOf(subject: SubjectMessage | undefined): Subject {
  const { kind = SubjectKind.UNSPECIFIED, name = "" } = subject ?? {};
  switch (kind) {
    case SubjectKind.TASK:
      return { kind: "TASK", name: String(parseTaskId(Number(name))) };
    case SubjectKind.LOCK:
      if (/^[a-z]{1,32}:.{1,512}$/.test(name)) return { kind: "LOCK", name };
      throw new InvalidArgumentError("a lock's name is TYPE:RESOURCE, as in ListLocks", {
        about: { field: "subject.name" },
      });
    case SubjectKind.VM:
      return { kind: "VM", name: bounded(name) };
    case SubjectKind.DISK:
    case SubjectKind.HOST:
    case SubjectKind.DEVICE:
    case SubjectKind.POOL:
      return { kind: REGISTRIES_KINDS[kind], name: bounded(name) };
    default:
      throw new NotImplementedError(
        "a director explains tasks, locks and VMs, and hosts, devices, disks and pools of its disk-registries",
      );
  }
}

/** Kinds that registries explain, alone or in addition to the director. */
const REGISTRIES_KINDS = {
  [SubjectKind.DISK]: "DISK",
  [SubjectKind.HOST]: "HOST",
  [SubjectKind.DEVICE]: "DEVICE",
  [SubjectKind.POOL]: "POOL",
} as const;

function bounded(name: string): string {
  if (name !== "" && name.length <= 512) return name;
  throw new InvalidArgumentError("give a name of at most 512 characters", { about: { field: "subject.name" } });
}

interface OwnAnswer {
  readonly answer: ExplainResponse;
  /** Subjects at the end of the chain about which registries know more. */
  readonly elsewhere: readonly Subject[];
  /** Causes for VMs whose hosts a registry could not report. */
  readonly silent: readonly Cause[];
}

/** Returns undefined for an object without a record at this director. */
async function ownAnswer(context: ExplainContext, subject: Subject, call: Asked): Promise<OwnAnswer | undefined> {
  if (subject.kind === "HOST" || subject.kind === "DEVICE" || subject.kind === "POOL") return undefined;
  const task = subject.kind === "TASK" ? await context.tasks.get(Number(subject.name)) : undefined;
  const summary = task === undefined ? await summaryOf(context, subject) : summaryOfTask(task);
  if (summary === undefined) return undefined;
  const steps = new Map<number, readonly TaskEvent[]>();
  const hosts = new Map<string, Pick<KnownVm, "hostIds" | "isNowhere">>();
  // Steps are in files and hosts are in a registry, so the first pass determines the tasks and VMs to look up.
  const first = await chainOf(context, subject, summary, { task, steps, hosts });
  for (const taskId of first.taskIds.slice(0, MAX_LOOKED_UP)) steps.set(taskId, await stepsOf(context, taskId));
  const silent = await Promise.all(
    first.vmCids.slice(0, MAX_JOINED).map(async (cid) => {
      const { unanswered, ...places } = await context.registries.hostsOf(cid, call);
      hosts.set(cid, places);
      return unanswered.map((message) => registrySilent({ kind: SubjectKind.VM, name: cid }, message));
    }),
  );
  call.signal.throwIfAborted();
  const { answer, diskCids, hostIds, poolNames } = await chainOf(context, subject, summary, { task, steps, hosts });
  // A VM without causes of its own may have a host or disks in trouble.
  const hostsOfVms = [...hosts.values()].flatMap((each) => each.hostIds);
  const disksOfVm = subject.kind === "VM" ? await disksOf(context, subject.name) : [];
  const elsewhere: Subject[] = [
    ...poolNames.map((name): Subject => ({ kind: "POOL", name })),
    ...[...new Set([...hostIds, ...hostsOfVms])].map((name): Subject => ({ kind: "HOST", name })),
    ...[...new Set([...diskCids, ...disksOfVm])].map((name): Subject => ({ kind: "DISK", name })),
  ];
  return { answer, elsewhere, silent: silent.flat() };
}

/** Returns the CIDs of a VM's disks. */
function disksOf({ tablet }: ExplainContext, name: string): Promise<string[]> {
  return tablet.read((tables) => {
    const { instanceId = "" } = recordedInstance(tables, name) ?? {};
    const disks = [
      ...tables.disks.by("byInstance", instanceId),
      ...tables.persistentDisks.by("byInstance", instanceId),
    ];
    return disks.flatMap(({ diskCid }) => diskCid || []);
  });
}

interface Chain {
  readonly answer: ExplainResponse;
  /** Tasks whose unfinished steps the chain needs. */
  readonly taskIds: readonly number[];
  /** CIDs of the VMs in the chain. */
  readonly vmCids: readonly string[];
  readonly diskCids: readonly string[];
  readonly hostIds: readonly string[];
  readonly poolNames: readonly string[];
}

function chainOf(context: ExplainContext, subject: Subject, summary: string, lookedUp: LookedUp): Promise<Chain> {
  const taskIds = new Set<number>();
  const vmCids = new Set<string>();
  const diskCids = new Set<string>();
  const hostIds = new Set<string>();
  const poolNames = new Set<string>();
  return context.tablet.read((tables) => {
    const known = whatIsKnown(context, tables, lookedUp);
    const noting: Known = {
      ...known,
      openSteps: (taskId) => {
        taskIds.add(taskId);
        return known.openSteps(taskId);
      },
      vmOf: (name) => noted(vmCids, known.vmOf(name), (vm: KnownVm) => vm.instance.vmCid),
      diskOf: (name) => noted(diskCids, known.diskOf(name), (disk) => disk.diskCid),
    };
    const answer = explanation(summary, subject, (each) => {
      if (each.kind === "HOST") hostIds.add(each.name);
      if (each.kind === "POOL") poolNames.add(each.name);
      return causesOf(each, noting);
    });
    return {
      answer,
      taskIds: [...taskIds],
      vmCids: [...vmCids],
      diskCids: [...diskCids],
      hostIds: [...hostIds],
      poolNames: [...poolNames],
    };
  });
}

function noted<Thing>(
  names: Set<string>,
  thing: Thing | undefined,
  nameOf: (thing: Thing) => string,
): Thing | undefined {
  if (thing !== undefined && nameOf(thing) !== "") names.add(nameOf(thing));
  return thing;
}

function summaryOfTask({ taskId, description, state, result }: Task): string {
  if (state === "error") return `task ${taskId} (${description}) has failed`;
  return `task ${taskId} (${description}) is ${state}${result === "" ? "" : `: ${result}`}`;
}

/** Returns undefined for a disk without a record at this director. */
async function summaryOf(context: ExplainContext, { kind, name }: Subject): Promise<string | undefined> {
  if (kind === "LOCK") {
    if (context.locks.list().some((lock) => lockName(lock) === name)) return `lock ${name} is held`;
    throw new NotFoundError(`lock ${name} is not held`, { about: { lock: name } });
  }
  return context.tablet.read((tables) => {
    if (kind === "DISK") {
      const disk = recordedDisk(tables, name);
      if (disk === undefined) return undefined;
      const { state, instanceId, diskCid } = disk;
      const shown = "name" in disk ? disk.name : name;
      const hostId = "hostId" in disk ? disk.hostId : undefined;
      const ofInstance = instanceId === "" ? "" : `, of instance ${instanceId}`;
      const where = hostId === undefined ? ofInstance : `, on host ${hostId}`;
      return `disk ${shown} (${diskCid || "not made yet"}) is ${state}${where}`;
    }
    const instance = recordedInstance(tables, name);
    if (instance === undefined)
      throw new NotFoundError(`there is no VM or instance ${name}; ${otherNames(name, instanceNames(tables))}`, {
        about: { field: "subject.name" },
      });
    const { deployment, vmState, vmCid, agentId } = instance;
    const vm = vmCid === "" ? "no VM" : `VM ${vmCid} with agent ${agentId}`;
    return `${deployment}/${formatInstance(instance)}, ${vm}, is ${vmState}`;
  });
}

function instanceNames(tables: DirectorTables): string[] {
  const names = [...tables.instances.entries()].map(
    ({ deployment, group, index }) => `${deployment}/${group}/${index}`,
  );
  return names.sort();
}

/** Returns a registry's answer with this director's uses of the disks and VMs in the answer. */
async function withUses(context: ExplainContext, answer: ExplainResponse): Promise<ExplainResponse> {
  const waitedFor = answer.causes.flatMap(({ becauseOf }) => becauseOf);
  const uses = await context.tablet.read((tables) => {
    const known = whatIsKnown(context, tables, NOTHING_LOOKED_UP);
    return explanation(
      "",
      waitedFor.flatMap(({ kind, name }): Subject[] =>
        kind === SubjectKind.DISK ? [{ kind: "DISK", name }] : kind === SubjectKind.VM ? [{ kind: "VM", name }] : [],
      ),
      (subject) => useCauses(subject, known).map((cause) => ({ subject, ...cause })),
    );
  });
  return { summary: answer.summary, causes: [...answer.causes, ...uses.causes] };
}

async function stepsOf({ tasks, taskLog }: ExplainContext, taskId: number): Promise<TaskEvent[]> {
  const task = await tasks.get(taskId).catch((error: unknown) => {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  });
  if (task === undefined) return [];
  const count = taskLog.eventCount(taskId) ?? 0;
  return openSteps(await taskLog.read(task, Math.max(0, count - EVENTS_SEEN), EVENTS_SEEN));
}

async function ofRegistries(
  { registries }: ExplainContext,
  { kind, name }: Subject,
  call: Asked,
): Promise<ExplainResponse> {
  const answer = await registries.explain({ kind: SubjectKind[kind], name }, call);
  if (answer !== undefined) return answer;
  throw new NotFoundError(`neither this director nor its disk-registries have a ${kind.toLowerCase()} ${name}`, {
    about: { field: "subject.name" },
  });
}

/** Returns an empty answer about a subject that no registry has. */
async function answerElsewhere(
  { registries }: ExplainContext,
  { kind, name }: Subject,
  call: Asked,
): Promise<ExplainResponse> {
  const subject = { kind: SubjectKind[kind], name };
  try {
    const { summary = "", causes = [] } = (await registries.explain(subject, call)) ?? {};
    return { summary, causes: kind === "HOST" ? causes.filter((cause) => isOfHost(cause, causes)) : causes };
  } catch (error) {
    call.signal.throwIfAborted();
    return { summary: "", causes: [registrySilent(subject, messageOf(error))] };
  }
}

/** Returns false for the trouble of another thing of the host, which need not concern what runs on the host. */
function isOfHost({ subject }: Cause, causes: readonly Cause[]): boolean {
  const isWaitedFor = ({ becauseOf }: Cause) =>
    becauseOf.some(({ kind, name }) => kind === subject?.kind && name === subject.name);
  return subject?.kind === SubjectKind.HOST || causes.some(isWaitedFor);
}

function registrySilent(subject: SubjectMessage, why: string): Cause {
  const message = `the disk-registry's causes are missing, because it cannot be asked: ${why}`;
  const cures = [{ what: "check that the disk-registry serves", command: "diskmesh status" }];
  return {
    subject,
    reason: "REGISTRY_SILENT",
    message,
    startTime: undefined,
    nextAttemptTime: undefined,
    cures,
    becauseOf: [],
  };
}
