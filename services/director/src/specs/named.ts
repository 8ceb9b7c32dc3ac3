interface Named {
  readonly name: string;
}

/**
 * Caches indexes by list. Lists are immutable, and a deploy looks up the same few names for every instance before every
 * step.
 */
const indexes = new WeakMap<readonly Named[], ReadonlyMap<string, Named>>();

/** Returns the part of a cloud config with the name; undefined for none. */
export function findNamed<Part extends Named>(parts: readonly Part[], name: string): Part | undefined {
  let index = indexes.get(parts) as ReadonlyMap<string, Part> | undefined;
  if (index === undefined) {
    index = new Map(parts.map((part) => [part.name, part]));
    indexes.set(parts, index);
  }
  return index.get(name);
}
