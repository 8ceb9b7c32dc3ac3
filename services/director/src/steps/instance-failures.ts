import { DomainError, messageOf } from "@diskmesh/domain";

/** What went wrong with which instance. */
export interface Failure {
  /** As people know it. */
  readonly name: string;
  readonly error: unknown;
}

/** Several instances failed, each for a reason of its own. */
class InstancesFailedError extends DomainError {
  override readonly reason = "INSTANCES_FAILED";
  override readonly outcome: "not_done" | "unknown";

  constructor(message: string, errors: readonly DomainError[]) {
    super(message, { cause: errors[0] });
    this.outcome = errors.some(({ outcome }) => outcome === "unknown") ? "unknown" : "not_done";
  }
}

/** Of a task's result, so that each of several failures has its share of it. */
const TEXTS_LENGTH = 1_800;
const MIN_TEXT_LENGTH = 60;

/** All that failed as one error; undefined when nothing did, or nothing but that the task was stopped. */
export function failureOf(failures: readonly Failure[], stopped: AbortSignal): unknown {
  const real = failures.filter(({ error }) => error !== stopped.reason);
  const bug = real.find(({ error }) => !(error instanceof DomainError));
  if (bug !== undefined) return bug.error;
  if (real.length < 2) return real[0]?.error;
  const length = Math.max(MIN_TEXT_LENGTH, Math.floor(TEXTS_LENGTH / real.length));
  const texts = real.map(({ name, error }) => shorten(`${name}: ${messageOf(error)}`, length));
  return new InstancesFailedError(
    `${real.length} instances failed; the events say more: ${texts.join("; ")}`,
    real.map(({ error }) => error as DomainError),
  );
}

function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 3)}...`;
}
