import { existsSync } from "node:fs";
import { register } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { repositoryFolder } from "../repository-folder.js";
import type { Modules, Mutation, Replacement } from "./mutation.js";
import type { MutatedModule, MutatedModules } from "./mutation-hooks.js";

/** Folders of the built modules, by the first part of a module's name. */
const FOLDERS: Readonly<Record<string, string>> = {
  "disk-agent": "services/disk-agent/dist",
  "disk-registry": "services/disk-registry/dist",
  sim: "test/dist/sim",
};

let made: Mutation | undefined;
const values = new Map<Replacement, unknown>();
const reached = new Set<Replacement>();

/**
 * Prepares this process for mutations; must run before any mutated module is loaded. Services do not depend on it: only
 * this call, in the same process, can mutate them.
 */
export function makeReady(mutations: readonly Mutation[]): void {
  const byUrl = new Map<string, MutatedModule>();
  for (const { module, name } of mutations.flatMap(({ replaced }) => replaced)) {
    const names = byUrl.get(urlOf(module))?.names ?? [];
    byUrl.set(urlOf(module), { module, names: [...new Set([...names, name])] });
  }
  const data: MutatedModules = { byUrl, switchUrl: import.meta.url };
  register("./mutation-hooks.js", import.meta.url, { data });
}

/** Activates a mutation, in place of the former one. */
export function switchOn(mutation: Mutation): void {
  made = mutation;
  reached.clear();
}

function urlOf(module: keyof Modules): string {
  const [first = "", ...rest] = module.split("/");
  const file = join(repositoryFolder, FOLDERS[first] ?? "", `${rest.join("/")}.js`);
  if (!existsSync(file)) throw new Error(`there is no module ${file}: mend the name ${module} in mutation.ts`);
  return pathToFileURL(file).href;
}

/**
 * Returns the replacements of a mutated module's exports.
 *
 * @public the source that mutation-hooks.ts writes imports it
 */
export function replacementsIn(
  module: string,
  names: readonly string[],
  real: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const now = (name: string): unknown => {
    const replacement = made?.replaced.find((each) => each.module === module && each.name === name);
    if (replacement === undefined) return real[name];
    reached.add(replacement);
    if (!values.has(replacement)) values.set(replacement, replacement.make(real as never));
    return values.get(replacement);
  };
  return Object.fromEntries(names.map((name) => [name, switched(real[name], () => now(name))]));
}

type Called = (...args: unknown[]) => unknown;

/**
 * Wraps a value so that each call and each read uses the present replacement, even through references taken earlier.
 */
function switched(value: unknown, now: () => unknown): unknown {
  if (typeof value === "object" && value !== null)
    return new Proxy(value, {
      get: (target, key) => switched(Reflect.get(target, key), () => Reflect.get(now() as object, key)),
    });
  if (typeof value !== "function") return value;
  const standing: object = new Proxy(value, {
    apply: (_target, self, args) => Reflect.apply(now() as Called, self, args),
    construct: (_target, args, newTarget) =>
      Reflect.construct(now() as Called, args, newTarget === standing ? (now() as Called) : newTarget) as object,
  });
  return standing;
}

/** Returns the replacements that the run never used, because a mutation without effect proves nothing. */
export function unreachedPlaces(): readonly string[] {
  return (made?.replaced ?? []).filter((each) => !reached.has(each)).map(({ module, name }) => `${name} of ${module}`);
}
