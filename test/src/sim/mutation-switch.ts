import { existsSync } from "node:fs";
import { register } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { repositoryFolder } from "../repository-folder.js";
import type { Modules, Mutation, Replacement } from "./mutation.js";
import type { MutatedModule, MutatedModules } from "./mutation-hooks.js";

/** Where the modules are built to, by the first part of their names. */
const FOLDERS: Readonly<Record<string, string>> = {
  "disk-agent": "services/disk-agent/dist",
  "disk-registry": "services/disk-registry/dist",
  sim: "test/dist/sim",
};

let replacements: readonly Replacement[] = [];
const reached = new Set<Replacement>();

/**
 * Makes a mistake in this process, from here on: nothing that it changes may have been loaded before. Services know
 * nothing of it, and nothing but a call of this, in their own process, can do it to them.
 */
export function switchOn(mutation: Mutation): void {
  replacements = mutation.replaced;
  const byUrl = new Map<string, MutatedModule>();
  for (const { module } of replacements) {
    const names = replacements.filter((each) => each.module === module).map(({ name }) => name);
    byUrl.set(urlOf(module), { module, names });
  }
  const data: MutatedModules = { byUrl, switchUrl: import.meta.url };
  register("./mutation-hooks.js", import.meta.url, { data });
}

function urlOf(module: keyof Modules): string {
  const [first = "", ...rest] = module.split("/");
  const file = join(repositoryFolder, FOLDERS[first] ?? "", `${rest.join("/")}.js`);
  if (!existsSync(file)) throw new Error(`there is no module ${file}: mend the name ${module} in mutation.ts`);
  return pathToFileURL(file).href;
}

/**
 * For the mutated module alone: what it exports in the place of what it has.
 * @public the source that mutation-hooks.ts writes imports it
 */
export function replacementsIn(module: string, real: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const own = replacements.filter((each) => each.module === module);
  return Object.fromEntries(own.map((each) => [each.name, noting(each, each.make(real as never))]));
}

/** What is called, or made, is noted as reached; other values are once they are loaded. */
function noting(replacement: Replacement, value: unknown): unknown {
  const note = (): void => void reached.add(replacement);
  if (typeof value !== "function") {
    note();
    return value;
  }
  return new Proxy(value, {
    apply: (target, self, args) => {
      note();
      return Reflect.apply(target, self, args);
    },
    construct: (target, args, newTarget) => {
      note();
      return Reflect.construct(target, args, newTarget) as object;
    },
  });
}

/** What the run never came to: a mutation that changes nothing proves nothing. */
export function unreachedPlaces(): readonly string[] {
  return replacements.filter((each) => !reached.has(each)).map(({ module, name }) => `${name} of ${module}`);
}
