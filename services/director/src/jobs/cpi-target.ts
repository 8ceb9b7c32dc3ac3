import type { CpiTarget } from "../cpi/cpi-calls.js";

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
