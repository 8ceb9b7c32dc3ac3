import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import type { Stemcell } from "../store/stemcell.js";
import { type CpiNames, sameCpi } from "./cpi-choice.js";

/** A stemcell as specified by a manifest. */
export interface WantedStemcell {
  readonly alias: string;
  /** Either `os` or `name` is empty. */
  readonly os: string;
  readonly name: string;
  /** "latest" selects the highest version. */
  readonly version: string;
}

/** Parses the result of `formatStemcell`. */
export function parseStemcell(text: string): { name: string; version: string } {
  const at = text.lastIndexOf("/");
  return { name: text.slice(0, at), version: text.slice(at + 1) };
}

/** Returns the CPI's stemcell of the wanted version; "latest" is the highest version that the CPI has. */
export function chooseStemcell(
  wanted: WantedStemcell,
  cpi: string,
  stemcells: readonly Stemcell[],
  names: CpiNames,
): Stemcell {
  const what = wanted.name === "" ? `of OS \`${wanted.os}\`,` : `\`${wanted.name}\``;
  const shown = `stemcell ${what} version \`${wanted.version}\``;
  const about = { about: { stemcell: wanted.alias } };
  const fitting = stemcells.filter(
    (each) =>
      !each.deleting &&
      (wanted.name === "" ? each.operatingSystem === wanted.os : each.name === wanted.name) &&
      (wanted.version === "latest" || each.version === wanted.version),
  );
  if (fitting.length === 0) throw new NotFoundError(`there is no ${shown}: upload it`, about);
  // The present CPI name takes precedence over former names, because a stemcell made since the rename is preferable.
  const own = fitting.filter((each) => each.cpi === cpi);
  const ofCpi = own.length > 0 ? own : fitting.filter((each) => sameCpi(each.cpi, cpi, names));
  const [best] = ofCpi.sort((a, b) => compareVersions(b.version, a.version));
  if (best !== undefined) return best;
  const where = cpi === "" ? "the default CPI" : `CPI \`${cpi}\``;
  const isUnfit = fitting.some(({ unfitCpis = [] }) => unfitCpis.some((unfit) => sameCpi(unfit, cpi, names)));
  throw new InvalidStateError(
    isUnfit
      ? `${shown} has no format that ${where} takes: upload a stemcell for it, or this one with --fix if the CPI takes it now`
      : `${shown} was not created with ${where}: upload it again to create it there; the output of the upload says why if that fails`,
    about,
  );
}

/** Compares numeric parts as numbers, e.g. 1.10 above 1.9. A version sorts above its own prefix. */
export function compareVersions(a: string, b: string): number {
  const [partsA, partsB] = [a.split(/[.+-]/), b.split(/[.+-]/)];
  for (let index = 0; index < Math.max(partsA.length, partsB.length); index++) {
    const [partA = "", partB = ""] = [partsA[index], partsB[index]];
    if (partA === partB) continue;
    const [isNumberA, isNumberB] = [/^\d{1,15}$/.test(partA), /^\d{1,15}$/.test(partB)];
    if (isNumberA && isNumberB && Number(partA) !== Number(partB)) return Number(partA) - Number(partB);
    if (isNumberA !== isNumberB) return isNumberA ? 1 : -1;
    return partA < partB ? -1 : 1;
  }
  return 0;
}
