import type { InitializeHook, LoadHook, ResolveHook } from "node:module";

/** A module with replaced exports. */
export interface MutatedModule {
  /** Name of the module. */
  readonly module: string;
  readonly names: readonly string[];
}

export interface MutatedModules {
  /** Mutated modules by the URL of the original. */
  readonly byUrl: ReadonlyMap<string, MutatedModule>;
  /** URL of the module that returns the replacements. */
  readonly switchUrl: string;
}

const MUTATED = "?mutated";

let { byUrl, switchUrl }: MutatedModules = { byUrl: new Map(), switchUrl: "" };

/** Hooks of Node's module loader, which run in their own thread. */
export const initialize: InitializeHook<MutatedModules> = (given) => {
  ({ byUrl, switchUrl } = given);
};

/** Resolves an import of a mutated module to a wrapper. Only the wrapper imports the original. */
export const resolve: ResolveHook = async (specifier, context, nextResolve) => {
  const resolved = await nextResolve(specifier, context);
  const url = `${resolved.url}${MUTATED}`;
  return byUrl.has(resolved.url) && context.parentURL !== url ? { ...resolved, url } : resolved;
};

export const load: LoadHook = async (url, context, nextLoad) => {
  const realUrl = url.slice(0, -MUTATED.length);
  const mutated = url.endsWith(MUTATED) ? byUrl.get(realUrl) : undefined;
  if (mutated === undefined) return nextLoad(url, context);
  const { module, names } = mutated;
  const source = [
    `import * as real from ${JSON.stringify(realUrl)};`,
    `import { replacementsIn } from ${JSON.stringify(switchUrl)};`,
    `export * from ${JSON.stringify(realUrl)};`,
    `export const { ${names.join(", ")} } = replacementsIn(${JSON.stringify(module)}, ${JSON.stringify(names)}, real);`,
  ].join("\n");
  return { format: "module", source, shortCircuit: true };
};
