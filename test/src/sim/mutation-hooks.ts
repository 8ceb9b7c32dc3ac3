import type { InitializeHook, LoadHook } from "node:module";
import type { Edit } from "./mutation.js";

/** Hooks of Node's module loader, in a thread of their own: they change the text of the files that a mutation names. */
let edits: readonly Edit[] = [];

export const initialize: InitializeHook<readonly Edit[]> = (given) => {
  edits = given;
};

export const load: LoadHook = async (url, context, nextLoad) => {
  const loaded = await nextLoad(url, context);
  const own = edits.filter(({ file }) => url.endsWith(`/${file}`));
  if (own.length === 0 || loaded.source == null) return loaded;
  let source = Buffer.from(loaded.source as Uint8Array).toString();
  for (const { find, replace } of own) source = source.replaceAll(find, replace);
  return { ...loaded, source };
};
