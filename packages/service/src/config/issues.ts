import { nearestOf, quoted } from "@diskmesh/domain";
import type * as z from "zod";
import { keysOf, plainType, typeOf } from "./keys.js";
import { isSecretAt, schemasTo } from "./places.js";
import { fileKeyOf, pathText, peel, shapeOf } from "./schema.js";
import { UNREADABLE } from "./secret-files.js";

/** Maximum number of reported problems. A file with more is no config, and a suggestion for each would take long. */
const MAX_PROBLEMS = 50;

/** Describes each problem of a config; the texts contain no value that may be secret. */
export function problemsOf(issues: readonly z.core.$ZodIssue[], schema: z.core.$ZodType): string[] {
  const problems = issues.slice(0, MAX_PROBLEMS).flatMap((issue) => new Described(schema).problems(issue));
  const rest = issues.length - MAX_PROBLEMS;
  return [...problems.slice(0, MAX_PROBLEMS), ...(rest > 0 ? [`and ${rest} more`] : [])];
}

class Described {
  constructor(private readonly schema: z.core.$ZodType) {}

  problems(issue: z.core.$ZodIssue, above: readonly PropertyKey[] = []): string[] {
    const path = [...above, ...issue.path];
    if (issue.code === "unrecognized_keys")
      return issue.keys.slice(0, MAX_PROBLEMS).map((key) => this.#unknownKey(path, key));
    if (issue.code === "invalid_union") {
      const branch = likeliestBranch(issue.errors);
      if (branch !== undefined) return branch.flatMap((each) => this.problems(each, path));
    }
    if (issue.input === UNREADABLE) return [];
    return [`${pathText(path) || "the file"}: ${this.#what(issue, path)}`];
  }

  #what(issue: z.core.$ZodIssue, path: readonly PropertyKey[]): string {
    const schema = [...schemasTo(this.schema, path)].at(path.length);
    const facts = schema === undefined ? {} : peel(schema).facts;
    const type = schema === undefined ? "" : plainType(typeOf(peel(schema).schema, facts));
    if (path.length > 0 && isMissing(issue)) {
      const orFile = facts.secret === undefined ? "" : `; or give ${fileKeyOf(String(path.at(-1)))}`;
      return `this key is missing; it takes: ${type}${orFile}`;
    }
    if (issue.code === "custom") return issue.message;
    // Not quoted: a plain text in place of a whole config may be a key file given by mistake.
    const isHidden = (path.length === 0 && typeof issue.input === "string") || isSecretAt(this.schema, path);
    const given = isHidden ? "this" : shown(issue.input);
    if (issue.code === "invalid_type" || issue.code === "invalid_union" || issue.code === "invalid_value")
      return `${given} does not fit; it takes: ${type || issue.message}`;
    return `${given} does not fit: ${withSmallFirstLetter(issue.message)}`;
  }

  #unknownKey(path: readonly PropertyKey[], name: string): string {
    const place = pathText([...path, name]);
    const here = [...schemasTo(this.schema, path)].at(path.length);
    const siblings = (here && shapeOf(peel(here).schema)) ?? new Map<string, z.core.$ZodType>();
    if (siblings.has(name)) return `${place}: this key excludes another key beside it: remove one of them`;
    const short = name.slice(0, 100);
    const near = nearestOf(short, siblings.keys());
    const nearest = near === undefined ? this.#elsewhere(short) : pathText([...path, near]);
    return `${place.slice(0, 200)}: this key is not known; ${nearest ? `did you mean ${nearest}?` : "remove it"}`;
  }

  /** Returns a hint when the key exists elsewhere in the config, e.g. one level higher or lower. */
  #elsewhere(name: string): string | undefined {
    const keys = new Map(keysOf(this.schema).map(({ path }) => [path.at(-1) ?? "", path]));
    const found = keys.get(nearestOf(name, keys.keys()) ?? "");
    return found && pathText(found);
  }
}

const isMissing = (issue: z.core.$ZodIssue): boolean =>
  issue.input === undefined && ["invalid_type", "invalid_union", "invalid_value"].includes(issue.code);

/** Returns the issues of the union's branch that matches best, if any branch matches at all. */
function likeliestBranch(branches: readonly (readonly z.core.$ZodIssue[])[]): readonly z.core.$ZodIssue[] | undefined {
  const within = branches.filter((issues) =>
    issues.some(({ path, code }) => path.length > 0 || code !== "invalid_type"),
  );
  return [...within].sort((a, b) => weight(a) - weight(b))[0];
}

const weight = (issues: readonly z.core.$ZodIssue[]): number =>
  issues.reduce((sum, issue) => sum + (issue.code === "unrecognized_keys" ? issue.keys.length : 1), 0);

function shown(value: unknown): string {
  if (typeof value === "string") return quoted(value, 60);
  if (value === null) return "nothing";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "a mapping" : String(value);
}

const withSmallFirstLetter = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);
