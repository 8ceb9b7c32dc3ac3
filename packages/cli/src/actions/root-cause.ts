import type { Cause, Subject } from "@diskmesh/api/common";

const keyOf = (subject: Subject | undefined): string => `${subject?.kind} ${subject?.name}`;

/** Returns the root cause by following the first cause of each waiting subject. */
export function rootCause(causes: readonly Cause[]): Cause | undefined {
  const passed = new Set<string>();
  let found = causes[0];
  for (let next = found; next !== undefined; ) {
    found = next;
    passed.add(keyOf(next.subject));
    const further = next.becauseOf.map(keyOf).filter((key) => !passed.has(key));
    next = causes.find(({ subject }) => further.includes(keyOf(subject)));
  }
  return found;
}
