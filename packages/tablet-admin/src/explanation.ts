import { type Cause as CauseMessage, type ExplainResponse, SubjectKind } from "@diskmesh/api/common";
import type { Cause } from "@diskmesh/domain";

interface Named {
  readonly kind: Exclude<keyof typeof SubjectKind, "UNSPECIFIED">;
  readonly name: string;
}

/** Maximum number of causes in an answer; nobody reads a longer chain. */
export const MAX_CAUSES = 50;

/**
 * Returns the causes of each subject, and then, breadth first, the causes of all subjects that these wait for. Each
 * subject occurs once, and so does a cause that two subjects have.
 */
export function explanation<Subject extends Named, Reason extends string>(
  summary: string,
  subject: Subject | readonly Subject[],
  causesOf: (subject: Subject) => readonly Cause<Subject, Reason>[],
): ExplainResponse {
  const causes: CauseMessage[] = [];
  const [asked, told] = [new Set<string>(), new Set<string>()];
  const queue: Subject[] = [subject].flat() as Subject[];
  for (let next = queue.shift(); next !== undefined && causes.length < MAX_CAUSES; next = queue.shift()) {
    const key = keyOf(next);
    if (asked.has(key)) continue;
    asked.add(key);
    for (const cause of causesOf(next)) {
      const { becauseOf = [], isEcho } = cause;
      if (isEcho && becauseOf.every((each) => asked.has(keyOf(each)))) continue;
      const text = `${cause.reason} ${cause.message}`;
      if (!told.has(text)) causes.push(causeMessage(cause));
      told.add(text);
      queue.push(...becauseOf);
    }
  }
  return { summary, causes: causes.slice(0, MAX_CAUSES) };
}

function keyOf({ kind, name }: Named): string {
  return `${kind} ${name}`;
}

function causeMessage<Subject extends Named>(cause: Cause<Subject, string>): CauseMessage {
  const { subject, reason, message, sinceMs, nextTryAtMs, cures = [], becauseOf = [] } = cause;
  return {
    subject: subjectMessage(subject),
    reason,
    message,
    startTime: sinceMs === undefined ? undefined : new Date(sinceMs),
    nextAttemptTime: nextTryAtMs === undefined ? undefined : new Date(nextTryAtMs),
    cures: cures.map(([what, command]) => ({ what, command })),
    becauseOf: becauseOf.slice(0, MAX_CAUSES).map(subjectMessage),
  };
}

function subjectMessage({ kind, name }: Named): { kind: SubjectKind; name: string } {
  return { kind: SubjectKind[kind], name };
}
