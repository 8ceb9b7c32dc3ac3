import { cpiNamed, type NamedCpi } from "@diskmesh/cpi";
import { InvalidStateError } from "@diskmesh/domain";
import { type Az, NO_AZ } from "./cloud-config.js";

/** The cpi-config as far as the director chooses by it: names alone, no secrets. */
export interface CpiNames {
  /** Undefined when there is no cpi-config: then the dispatcher's own CPIs serve. */
  readonly cpis: readonly NamedCpi[] | undefined;
}

/** The CPI that makes what is made in an az; empty for the default one. Throws when the configs do not agree. */
export function cpiOfAz(az: Az, { cpis }: CpiNames): string {
  if (cpis === undefined) return az.cpi;
  // The default CPI, or the one that adopted what it had made.
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

/** The name that a recorded CPI has now: its own, or of the CPI that it was renamed to. Undefined for none. */
export function currentCpi(recorded: string, { cpis }: CpiNames): string | undefined {
  return cpis === undefined ? recorded : cpiNamed(cpis, recorded)?.name;
}

/** Returns true when two recorded CPIs are one, perhaps under a former name. */
export function sameCpi(a: string, b: string, names: CpiNames): boolean {
  return a === b || (currentCpi(a, names) ?? a) === (currentCpi(b, names) ?? b);
}

/** The CPI to record with what it made. Nothing is recorded of the default one, so that a CPI of a cpi-config may adopt it. */
export function cpiToRecord(asked: string, answered: string): string {
  return asked === "" || answered === "" ? asked : answered;
}
