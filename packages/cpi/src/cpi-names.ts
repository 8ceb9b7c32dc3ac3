/** Names of a CPI in a cpi-config. */
export interface NamedCpi {
  readonly name: string;
  /** Former names. Objects recorded under them belong to this CPI; an empty name stands for the default CPI. */
  readonly migratedFrom: readonly string[];
}

/** Pattern of CPI names and types. Stricter than other names, because CPIs put them into paths. */
export const CPI_NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$/;

export const CPI_NAME_RULE = "start with a letter or digit, then give letters, digits and '_.-', 255 at most";

/** Returns the CPI with a recorded name: the CPI that has the name now, or else the CPI that had it formerly. */
export function cpiNamed<Cpi extends NamedCpi>(cpis: readonly Cpi[], name: string): Cpi | undefined {
  return cpis.find((cpi) => cpi.name === name) ?? cpis.find(({ migratedFrom }) => migratedFrom.includes(name));
}

/** Returns a present or former name that two CPIs share, with these CPIs; undefined when names are unique. */
export function nameOfTwo(
  cpis: readonly NamedCpi[],
): { readonly name: string; readonly users: readonly [string, string] } | undefined {
  const users = new Map<string, string>();
  // A set, because a CPI may list its present name among its former ones.
  for (const cpi of cpis)
    for (const name of new Set([cpi.name, ...cpi.migratedFrom])) {
      const other = users.get(name);
      if (other !== undefined) return { name, users: [other, cpi.name] };
      users.set(name, cpi.name);
    }
  return undefined;
}
