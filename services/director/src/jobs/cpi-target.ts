import type { CpiTarget } from "../cpi/cpi-calls.js";
import { currentCpi } from "../model/cpi-choice.js";
import type { DirectorTables } from "../schema.js";
import type { JobContext } from "./job.js";

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

/** Of the step of a job that is all about one CPI, which is recorded under that name. Nothing when nothing is. */
export function cpiOfStep(context: JobContext, tables: DirectorTables, recorded: string | undefined): { cpi?: string } {
  if (recorded === undefined) return {};
  return { cpi: currentCpi(recorded, context.cpiConfigs.current(tables)) ?? recorded };
}
