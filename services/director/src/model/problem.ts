import { InvalidArgumentError, NotFoundError } from "@diskmesh/domain";

/** What each resolution does, for people. Names are BOSH's where it has them. */
const PLANS = {
  ignore: "leave it as it is",
  recreate_vm: "delete the VM if it is there, and make another, with the instance's persistent disk",
  reboot_vm: "reboot the VM, and wait for its agent",
  delete_vm: "detach the VM's disks and delete it; the next deploy makes another",
  delete_vm_reference: "detach the VM's disks and forget it without deleting it; the next deploy makes another",
  delete_disk_reference: "forget the disk, with what is on it, should it be there after all",
  reattach_disk: "detach the disk from wherever it is, and attach it to the instance's VM",
  detach_disk: "detach the disk from wherever it is",
  add_link: "tell the VM's agent of the disk again",
  remove_link: "have the VM's agent remove its link",
} as const;
export type Resolution = keyof typeof PLANS;

type ProblemType =
  | "missing_vm"
  | "unresponsive_agent"
  | "missing_disk"
  | "mount_info_mismatch"
  | "missing_link"
  | "surplus_link"
  | "unknown_vm";

/** Which record a disk has: a dynamic disk by its name, a persistent one by its id. */
export interface DiskKey {
  readonly kind: "dynamic" | "persistent";
  readonly key: string;
}

/** Something that is not as recorded. */
export interface Finding {
  readonly type: ProblemType;
  readonly deployment: string;
  /** Of its instance; both are empty when it is no instance's, as an orphaned disk. */
  readonly group: string;
  readonly instanceId: string;
  /** As recorded; empty for none. An unknown VM's own. */
  readonly vmCid: string;
  /** The CPI that has it. */
  readonly cpi: string;
  /** Empty when it is about none. */
  readonly diskCid: string;
  /** Null when it is about none, or about one that nobody knows. */
  readonly disk: DiskKey | null;
  /** Of other instances' VMs that have the disk. */
  readonly elsewhere: readonly string[];
  readonly description: string;
}

/** A finding that was recorded, until a later scan does not find it any more. */
export interface Problem extends Finding {
  readonly problemId: number;
  readonly foundAtMs: number;
  /** False once it has been dealt with. */
  readonly open: boolean;
  /** The task that began to act on it, having found it to be there still; 0 for none. */
  readonly begunByTaskId: number;
  /** The task that last ended with it, and what became of it. */
  readonly handledByTaskId: number;
  readonly outcome: string;
}

/** Which of several can be told from the deployment's other findings. */
export function findingKey({ type, instanceId, vmCid, diskCid }: Finding): string {
  return `${type} ${type === "unknown_vm" ? vmCid : instanceId} ${diskCid}`;
}

export function planOf(resolution: Resolution): string {
  return PLANS[resolution];
}

/** In the order in which people are asked. */
export function resolutionsOf({ type, vmCid, disk }: Finding): readonly Resolution[] {
  switch (type) {
    case "missing_vm":
      return ["ignore", "recreate_vm", "delete_vm_reference"];
    case "unresponsive_agent":
      return ["ignore", "reboot_vm", "recreate_vm", "delete_vm", "delete_vm_reference"];
    case "missing_disk":
      return ["ignore", "delete_disk_reference"];
    case "mount_info_mismatch":
      return ["ignore", vmCid === "" ? "detach_disk" : "reattach_disk"];
    case "missing_link":
      return ["ignore", "add_link"];
    case "surplus_link":
      return disk === null ? ["ignore"] : ["ignore", "remove_link"];
    case "unknown_vm":
      return ["ignore", "delete_vm"];
  }
}

/** BOSH's, where it has the type. Of ours, what loses nothing and can be done again. */
export function defaultResolution(finding: Finding): Resolution {
  const { type, disk } = finding;
  if (type === "missing_vm") return "recreate_vm";
  if (type === "missing_link") return "add_link";
  return type === "surplus_link" && disk !== null ? "remove_link" : "ignore";
}

/** What somebody wants done about a problem; with an empty resolution its default. */
export interface Answer {
  readonly problemId: number;
  readonly resolution: string;
}

/** Throws when a problem is not the deployment's, or has been dealt with, or has no such resolution. */
export function checkAnswers(
  deployment: string,
  answers: readonly Answer[],
  problemNamed: (problemId: number) => Problem | undefined,
): void {
  for (const { problemId, resolution } of answers) {
    const about = { about: { problem_id: String(problemId) } };
    const problem = problemNamed(problemId);
    if (problem === undefined || problem.deployment !== deployment || !problem.open)
      throw new NotFoundError(`deployment \`${deployment}\` has no problem ${problemId}: scan it again`, about);
    const names: readonly string[] = resolutionsOf(problem);
    if (resolution !== "" && !names.includes(resolution))
      throw new InvalidArgumentError(
        `problem ${problemId} (${problem.type}) has no resolution \`${resolution}\`: it has ${names.map((name) => `\`${name}\``).join(", ")}`,
        about,
      );
  }
}

/** The next problem of a task that deals with them: none when it has dealt with all. */
export function nextToResolve(
  problems: readonly Problem[],
  { answers, auto }: { readonly answers: readonly Answer[]; readonly auto: boolean },
  taskId: number,
): { readonly problem: Problem; readonly resolution: Resolution } | undefined {
  const answerTo = new Map(answers.map((answer) => [answer.problemId, answer]));
  for (const problem of problems) {
    if (!problem.open || problem.handledByTaskId === taskId) continue;
    const answer = answerTo.get(problem.problemId);
    if (answer === undefined && !auto) continue;
    const resolution =
      answer === undefined || answer.resolution === "" ? defaultResolution(problem) : answer.resolution;
    return { problem, resolution: resolution as Resolution };
  }
  return undefined;
}

/** What a scan makes of what is recorded: what it found again keeps its number. */
export function recordFindings(
  recorded: readonly Problem[],
  findings: readonly Finding[],
  nextId: () => number,
  nowMs: number,
): { readonly put: Problem[]; readonly forget: Problem[] } {
  const known = new Map(recorded.map((problem) => [findingKey(problem), problem]));
  const put = findings.map((finding): Problem => {
    const before = known.get(findingKey(finding));
    const { problemId, foundAtMs, outcome } = before?.open
      ? before
      : { problemId: before?.problemId ?? nextId(), foundAtMs: nowMs, outcome: "" };
    return { ...finding, problemId, foundAtMs, open: true, begunByTaskId: 0, handledByTaskId: 0, outcome };
  });
  const kept = new Set(put.map(({ problemId }) => problemId));
  return { put, forget: recorded.filter(({ problemId }) => !kept.has(problemId)) };
}
