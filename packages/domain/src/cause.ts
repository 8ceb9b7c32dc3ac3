/** An action and its command. The command is empty when the action is none, such as replacing a drive. */
export type Cure = readonly [what: string, command: string];

/** Reason why a thing is not, or not yet, in its wanted state. */
export interface Cause<Subject, Reason extends string> {
  readonly subject: Subject;
  readonly reason: Reason;
  readonly message: string;
  readonly sinceMs?: number | undefined;
  readonly nextTryAtMs?: number | undefined;
  readonly cures?: readonly Cure[];
  /** Things that it waits for. */
  readonly becauseOf?: readonly Subject[];
  /** True when it adds nothing to the causes of the things that it waits for. Omitted where all of those are listed. */
  readonly isEcho?: true;
}
