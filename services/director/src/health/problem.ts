import { InvalidArgumentError, NotFoundError } from "@diskmesh/domain";
import { type Answer, type Finding, PLANS, type Problem, type Resolution } from "../store/problem.js";

/** Returns a key that is unique among the findings of a deployment. */
export function findingKey({ type, instanceId, vmCid, diskCid }: Finding): string {
  return `${type} ${type === "unknown_vm" ? vmCid : instanceId} ${diskCid}`;
}

export function planOf(resolution: Resolution): string {
  return PLANS[resolution];
}

/** Returns the possible resolutions, in display order. */
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

/**
 * Returns BOSH's default for BOSH's problem types. For other types: a resolution that loses no data and is repeatable.
 */
export function defaultResolution(finding: Finding): Resolution {
  const { type, disk } = finding;
  if (type === "missing_vm") return "recreate_vm";
  if (type === "missing_link") return "add_link";
  return type === "surplus_link" && disk !== null ? "remove_link" : "ignore";
}

/** Throws unless each answer names an open problem of the deployment and one of the problem's resolutions. */
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

/** Returns the next problem for a task to resolve; undefined when all are handled. */
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

/** Returns the problems of a scan's findings. A problem that is found again keeps its number. */
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
