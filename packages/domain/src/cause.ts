/** A repair action and its command. The command is empty when no command does it, e.g. for replacing a drive. */
export type Cure = readonly [what: string, command: string];

/** Reason why a subject is not, or not yet, in its desired state. */
export interface Cause<Subject, Reason extends string> {
  readonly subject: Subject;
  readonly reason: Reason;
  readonly message: string;
  readonly sinceMs?: number | undefined;
  readonly nextTryAtMs?: number | undefined;
  readonly cures?: readonly Cure[];
  /** Subjects that this one waits for. */
  readonly becauseOf?: readonly Subject[];
  /**
   * True when this cause only repeats the causes of the subjects in `becauseOf`. An explanation that covers all these
   * subjects omits this cause.
   */
  readonly isEcho?: true;
  /** True when nobody needs to act: the step is in progress without an error, or nobody waits for it. */
  readonly isRoutine?: boolean;
}

/** Returns the trouble of a subject: its first cause that somebody needs to act on; undefined when nothing is wrong. */
export function troubleIn<Found extends Pick<Cause<unknown, string>, "isRoutine">>(
  causes: readonly Found[],
): Found | undefined {
  return causes.find(({ isRoutine }) => !isRoutine);
}
