/** The command is empty where the cure is none, such as a drive to be replaced. */
export type Cure = readonly [what: string, command: string];

/** Why a thing is not as it should be, or not yet. */
export interface Cause<Subject, Reason extends string> {
  readonly subject: Subject;
  readonly reason: Reason;
  readonly message: string;
  readonly sinceMs?: number | undefined;
  readonly nextTryAtMs?: number | undefined;
  readonly cures?: readonly Cure[];
  /** What it waits for. */
  readonly becauseOf?: readonly Subject[];
  /** It says nothing that what it waits for does not: left out where all of that was told of before. */
  readonly isEcho?: true;
}
