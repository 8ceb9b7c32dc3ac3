import { currentCpi } from "../specs/cpi-choice.js";
import type { DirectorTables } from "../store/schema.js";
import type { CpiJobContext } from "./context.js";
import type { CpiTarget } from "./cpi-calls.js";

/**
 * Returns the CPI of an existing object. For an object of the default CPI the az is left out, because the dispatcher
 * would otherwise choose the CPI that the az has now, which does not know the object.
 */
export function recorded(thing: {
  readonly cpi: string;
  readonly az: string;
  readonly stemcellApiVersion?: number;
}): CpiTarget {
  const { cpi, az, stemcellApiVersion = 0 } = thing;
  return { cpi, az: cpi === "" ? "" : az, stemcellApiVersion };
}

/** Returns the recorded CPIs of a step by their present names. Omits undefined CPIs. */
export function cpisOfStep(
  context: Pick<CpiJobContext, "configs">,
  tables: DirectorTables,
  ...recorded: readonly (string | undefined)[]
): { readonly cpis: readonly string[] } {
  const names = context.configs.cpi.current(tables);
  const known = recorded.filter((cpi) => cpi !== undefined);
  return { cpis: known.map((cpi) => currentCpi(cpi, names) ?? cpi) };
}

/**
 * Returns the names of all CPIs: those of the cpi-config, and the empty name of the default CPI unless another CPI has
 * adopted its objects.
 */
export function allCpis(context: Pick<CpiJobContext, "configs">, tables: DirectorTables): readonly string[] {
  const names = context.configs.cpi.current(tables);
  const configured = names.cpis?.map((cpi) => cpi.name) ?? [];
  return [...new Set([...configured, currentCpi("", names) ?? ""])];
}
