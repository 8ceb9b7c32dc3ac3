import type { Issue } from "./document.js";

type Path = readonly PropertyKey[];

/** BOSH's pattern of variables. Messages never quote the value, because its other parts may be secret. */
const VARIABLE = /\(\(.*?\)\)/;

const MESSAGE = "contains a ((variable)), but there is no config server: give its value, e.g. by --var of the bosh CLI";

/** Yields each value and key of a new text that contains a ((variable)), except what `isLeftOut` says of a key and its path. */
export function* variableIssues(
  value: unknown,
  isLeftOut: (key: string, path: Path) => boolean = () => false,
  path: Path = [],
): Generator<Issue> {
  if (typeof value === "string" && VARIABLE.test(value)) yield { path, message: MESSAGE };
  if (typeof value !== "object" || value === null) return;
  const isList = Array.isArray(value);
  for (const [key, inner] of Object.entries(value)) {
    const place = [...path, isList ? Number(key) : key];
    if (isLeftOut(key, place)) continue;
    if (!isList && VARIABLE.test(key)) yield { path: place, message: MESSAGE };
    yield* variableIssues(inner, isLeftOut, place);
  }
}
