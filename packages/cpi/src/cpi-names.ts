/** A CPI of a cpi-config, as far as names go. */
export interface NamedCpi {
  readonly name: string;
  /** Former names, whose things are this CPI's now; an empty one adopts what the default CPI made. */
  readonly migratedFrom: readonly string[];
}

/** Names, and types, of CPIs: narrower than other names, since CPIs carry theirs into paths. */
export const CPI_NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$/;

export const CPI_NAME_RULE = "start with a letter or digit, then give letters, digits and '_.-', 255 at most";

/** Which CPI a recorded name means: the one that has it, or else the one that had it. */
export function cpiNamed<Cpi extends NamedCpi>(cpis: readonly Cpi[], name: string): Cpi | undefined {
  return cpis.find((cpi) => cpi.name === name) ?? cpis.find(({ migratedFrom }) => migratedFrom.includes(name));
}

/** A name, present or former, that stands for two CPIs, and which these are. */
export function nameOfTwo(
  cpis: readonly NamedCpi[],
): { readonly name: string; readonly users: readonly [string, string] } | undefined {
  const users = new Map<string, string>();
  // Its own present name among the former ones leaves nothing open.
  for (const cpi of cpis)
    for (const name of new Set([cpi.name, ...cpi.migratedFrom])) {
      const other = users.get(name);
      if (other !== undefined) return { name, users: [other, cpi.name] };
      users.set(name, cpi.name);
    }
  return undefined;
}
