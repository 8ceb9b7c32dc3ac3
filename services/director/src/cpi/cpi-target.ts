import { currentCpi } from "../specs/cpi-choice.js";
import type { DirectorTables } from "../store/schema.js";
import type { CpiJobContext } from "./context.js";
import type { CpiTarget } from "./cpi-calls.js";

/**
 * The CPI of something that exists. What the default CPI made has no CPI recorded: then the az must not be named, or the
 * CPI that the az has got since would be asked, and would know nothing of it.
 */
export function recorded(thing: {
  readonly cpi: string;
  readonly az: string;
  readonly stemcellApiVersion?: number;
}): CpiTarget {
  const { cpi, az, stemcellApiVersion = 0 } = thing;
  return { cpi, az: cpi === "" ? "" : az, stemcellApiVersion };
}

/** Recorded CPIs by their present names, for a step; what has none recorded is left out. */
export function cpisOfStep(
  context: Pick<CpiJobContext, "configs">,
  tables: DirectorTables,
  ...recorded: readonly (string | undefined)[]
): { readonly cpis: readonly string[] } {
  const names = context.configs.cpi.current(tables);
  const known = recorded.filter((cpi) => cpi !== undefined);
  return { cpis: known.map((cpi) => currentCpi(cpi, names) ?? cpi) };
}

/** Every CPI there is; the default one, by its empty name, when there is no cpi-config. */
export function allCpis(context: Pick<CpiJobContext, "configs">, tables: DirectorTables): readonly string[] {
  return context.configs.cpi.current(tables).cpis?.map((cpi) => cpi.name) ?? [""];
}
