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
}
