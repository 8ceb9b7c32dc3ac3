import { type Cause, type ExplainResponse, SubjectKind } from "@diskmesh/api/common";
import { DomainError, quoted } from "@diskmesh/domain";
import { type Mesh, SERVICES, type ServiceName } from "../mesh/mesh.js";
import { explainService } from "../mesh/service-state.js";
import { EndedWith, EXIT_CODES, UsageError } from "../output/exit-codes.js";
import { timeText } from "../output/output.js";
import { taskIdOf } from "../output/values.js";
import type { Action } from "./action.js";
import { tellAttention, whatNeedsAttention } from "./attention.js";
import { rootCause } from "./root-cause.js";

/**
 * Kinds that users type, with the subject kind and the services to query. The second service is queried only if the
 * first one fails.
 */
const KINDS: Readonly<Record<string, readonly [kind: SubjectKind, ...services: ServiceName[]]>> = {
  host: [SubjectKind.HOST, "director", "disk-registry"],
  device: [SubjectKind.DEVICE, "director", "disk-registry"],
  disk: [SubjectKind.DISK, "director", "disk-registry"],
  pool: [SubjectKind.POOL, "disk-registry"],
  vm: [SubjectKind.VM, "director"],
  task: [SubjectKind.TASK, "director"],
  lock: [SubjectKind.LOCK, "director"],
};

const SERVICE = "service";
const TYPED = [...Object.keys(KINDS), SERVICE];
/** Processes that `why service` does not ask, because no address of theirs is configured, and who tells of them. */
const ASKED_ELSEWHERE: Readonly<Record<string, string>> = {
  "disk-agent": "an agent is explained with its host: diskmesh why host HOST",
  "nats-server": "who lacks NATS says so: diskmesh why",
  "csi-driver":
    "its log says which service does not answer, kubectl describe of the claim, pod or volumeattachment what it answered; a driver that hangs or warns is listed with the director, or with its host: diskmesh why",
};
/** Deadline of a query. A process that does not know the leader searches for it until then. */
const ASK_DEADLINE_MS = 5_000;

export const why: Action = {
  usage: "why [kind] [name]",
  summary: `explain the state of an object, and what to do: ${TYPED.join(", ")}; without an object, list what needs attention`,
  kinds: TYPED,
  example: "diskmesh why host host-3",
  run: async ({ mesh, output, args: [typed = "", name = ""] }) => {
    if (typed === "") return tellAttention(output, await whatNeedsAttention(mesh));
    if (name === "") throw new UsageError(`name the ${typed} to explain`);
    const tell = (answer: ExplainResponse) => output.answer(answer, linesOf(answer).join("\n"));
    if (typed === SERVICE) {
      const service = SERVICES.find((each) => each === name);
      if (service === undefined) {
        const hint = Object.hasOwn(ASKED_ELSEWHERE, name) ? `: ${ASKED_ELSEWHERE[name]}` : "";
        throw new UsageError(`${quoted(name)} is none of ${SERVICES.join(", ")}${hint}`);
      }
      tell(await explainService(mesh, service));
      return;
    }
    const [kind, ...services] = Object.hasOwn(KINDS, typed) ? (KINDS[typed] ?? []) : [];
    if (kind === undefined) throw new UsageError(`${quoted(typed)} is none of ${TYPED.join(", ")}`);
    if (kind === SubjectKind.TASK) taskIdOf(name);
    const answer = await firstAnswer(mesh, { kind, name }, services);
    if (!("silent" in answer)) return tell(answer);
    const { summary, causes } = await explainService(mesh, answer.silent);
    tell({ summary: `${typed} ${name} cannot be explained now: ${summary}`, causes });
    throw new EndedWith(EXIT_CODES.unavailable);
  },
};

/**
 * Returns the first explanation, or the name of a service that did not answer: another one that lacks the name does not
 * speak for it. Only the director knows the names of dynamic disks.
 */
async function firstAnswer(
  mesh: Mesh,
  subject: { readonly kind: SubjectKind; readonly name: string },
  services: readonly ServiceName[],
): Promise<ExplainResponse | { readonly silent: ServiceName }> {
  let silent: ServiceName | undefined;
  let failure: unknown;
  for (const service of services) {
    try {
      return await mesh.admin(service).explain({ subject }, { deadlineMs: ASK_DEADLINE_MS });
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      if (error.retryable) silent = service;
      failure = error;
    }
  }
  if (silent === undefined) throw failure;
  return { silent };
}

/** The first line states the fault, its subject and its start, because many users read only that line. */
function linesOf({ summary, causes }: ExplainResponse): string[] {
  const root = rootCause(causes);
  if (root === undefined) return [summary, "no problem is known"];
  const since = root.startTime === undefined ? "" : `, since ${timeText(root.startTime)}`;
  return [`${summary}: ${root.message}${since}`, ...causes.flatMap(linesOfCause)];
}

function linesOfCause({ reason, message, startTime, nextAttemptTime, cures }: Cause): string[] {
  const times = [
    startTime === undefined ? "" : `since ${timeText(startTime)}`,
    nextAttemptTime === undefined ? "" : `next at ${timeText(nextAttemptTime)}`,
  ].filter(Boolean);
  const ways = cures.map(({ what, command }) => `    ${what}${command === "" ? "" : `: ${command}`}`);
  return [`  ${reason}${times.length === 0 ? "" : ` (${times.join(", ")})`}`, `    ${message}`, ...ways];
}
