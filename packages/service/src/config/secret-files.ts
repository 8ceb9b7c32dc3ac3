import { readFileSync, statSync } from "node:fs";
import { messageOf } from "@diskmesh/domain";
import * as z from "zod";
import { parseYaml } from "./file.js";
import { fromConfigFolder } from "./path.js";
import { isMapping } from "./places.js";
import { elementOf, fileKeyOf, pathText, peel, shapeOf } from "./schema.js";

const MAX_SECRET_LENGTH = 64 * 1024;

export interface Findings {
  readonly problems: string[];
  readonly warnings: string[];
}

/** Returns the config with each secret from a file in place of the key that names the file. */
export function withSecretFiles(
  content: unknown,
  schema: z.core.$ZodType,
  findings: Findings,
  path: readonly PropertyKey[] = [],
): unknown {
  const { schema: peeled } = peel(schema);
  if (Array.isArray(content)) {
    const element = elementOf(peeled);
    if (element === undefined) return content;
    return content.map((each, index) => withSecretFiles(each, element, findings, [...path, index]));
  }
  const shape = shapeOf(peeled);
  if (shape === undefined || !isMapping(content)) return content;
  const resolved: Record<string, unknown> = { ...content };
  for (const [name, within] of shape) {
    const fileKey = fileKeyOf(name);
    if (peel(within).facts.secret !== undefined && Object.hasOwn(content, fileKey)) {
      delete resolved[fileKey];
      const place = pathText([...path, fileKey]);
      if (Object.hasOwn(content, name)) findings.problems.push(`${place}: ${name} is given, too: remove one of them`);
      else resolved[name] = secretIn(content[fileKey], within, place, findings);
    }
    if (Object.hasOwn(resolved, name))
      resolved[name] = withSecretFiles(resolved[name], within, findings, [...path, name]);
  }
  return resolved;
}

/** Placeholder for a secret that could not be read; the problem is reported already. */
export const UNREADABLE = Symbol("unreadable");

function secretIn(given: unknown, schema: z.core.$ZodType, place: string, { problems, warnings }: Findings): unknown {
  if (typeof given !== "string" || given === "") {
    problems.push(`${place}: give the path of a file`);
    return UNREADABLE;
  }
  const file = fromConfigFolder(given);
  try {
    const text = readFileSync(file, "utf8");
    const warning = tooOpen(file);
    if (warning !== undefined) warnings.push(`${place}: ${warning}`);
    if (text.length > MAX_SECRET_LENGTH) throw new Error(`it has more than ${MAX_SECRET_LENGTH} characters`);
    if (text.trim() === "") throw new Error("it is empty");
    // Editors and `echo` end a file with a line break.
    return peel(schema).schema instanceof z.ZodString || isTextOrPath(schema)
      ? text.replace(/\r?\n$/, "")
      : parseYaml(text, file);
  } catch (error) {
    problems.push(`${place}: cannot read the secret from ${file}: ${messageOf(error)}`);
    return UNREADABLE;
  }
}

/** Returns whether the schema is a union of texts, such as an address or a path. */
function isTextOrPath(schema: z.core.$ZodType): boolean {
  const { schema: peeled } = peel(schema);
  return (
    peeled instanceof z.ZodStringFormat ||
    (peeled instanceof z.ZodUnion && peeled.def.options.every((option) => peel(option).schema instanceof z.ZodString))
  );
}

/** Returns why a file is unsafe for a secret; undefined when it is safe, or cannot be checked. */
export function tooOpen(file: string): string | undefined {
  const { mode } = statSync(file, { throwIfNoEntry: false }) ?? { mode: 0 };
  if ((mode & 0o004) === 0) return undefined;
  return `all users of this machine may read ${file}, which contains a secret: chmod o-rwx ${file}`;
}
