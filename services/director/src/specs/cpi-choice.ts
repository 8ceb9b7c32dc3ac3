import { cpiNamed, type NamedCpi } from "@diskmesh/cpi";
import { InvalidStateError } from "@diskmesh/domain";
import { type Az, NO_AZ } from "./cloud-config.js";

/** The names in the cpi-config, without secrets, by which the director chooses CPIs. */
export interface CpiNames {
  /** Undefined without a cpi-config; the dispatcher's own CPIs are used then. */
  readonly cpis: readonly NamedCpi[] | undefined;
}

/** Returns the CPI for new objects in an AZ; empty for the default CPI. Throws when the configs disagree. */
export function cpiOfAz(az: Az, { cpis }: CpiNames): string {
  if (cpis === undefined) return az.cpi;
  // Without an AZ the default CPI is used, or the CPI of the cpi-config that has adopted the default CPI's objects.
  if (az.name === NO_AZ.name) return currentCpi("", { cpis }) ?? "";
  const about = { about: { az: az.name } };
  if (az.cpi === "") {
    throw new InvalidStateError(
      `AZ \`${az.name}\` must specify a CPI when CPI config is defined: add \`cpi\` to it in the cloud config`,
      about,
    );
  }
  const known = currentCpi(az.cpi, { cpis });
  if (known !== undefined) return known;
  const names = cpis.map((cpi) => `\`${cpi.name}\``).join(", ");
  throw new InvalidStateError(
    `CPI \`${az.cpi}\` of AZ \`${az.name}\` not found in cpi-config: it has ${names === "" ? "no CPIs" : names}`,
    about,
  );
}

/** Returns the present name of a recorded CPI, which may have been renamed; undefined when the CPI is gone. */
export function currentCpi(recorded: string, { cpis }: CpiNames): string | undefined {
  return cpis === undefined ? recorded : cpiNamed(cpis, recorded)?.name;
}

/** Returns true when two recorded names belong to the same CPI, possibly under a former name. */
export function sameCpi(a: string, b: string, names: CpiNames): boolean {
  return a === b || (currentCpi(a, names) ?? a) === (currentCpi(b, names) ?? b);
}

/**
 * Returns the CPI name to record with a new object. The default CPI is recorded as the empty name, so that a CPI of a
 * cpi-config can adopt its objects.
 */
export function cpiToRecord(asked: string, answered: string): string {
  return asked === "" || answered === "" ? asked : answered;
}
