import {
  CPI_NAME_PATTERN,
  CPI_NAME_RULE,
  CpiConfigInvalidError,
  CpiUnusableError,
  cpiNamed,
  type NamedCpi,
  nameOfTwo,
} from "@diskmesh/cpi";
import { InvalidArgumentError, InvalidStateError, quoted } from "@diskmesh/domain";
import type { CpiMethod } from "./methods.js";

export interface Choosable extends NamedCpi {
  /** Accepted stemcell formats; empty when unknown. */
  readonly stemcellFormats: readonly string[];
}

/** The available CPIs. */
export interface Offer {
  /** True when the CPIs come from a cpi-config. The dispatcher's own CPIs then cannot be chosen by name. */
  readonly isConfigured: boolean;
  readonly cpis: readonly Choosable[];
  /** The name of the default CPI, the dispatcher's own first CPI. */
  readonly defaultCpi: string;
  /** The default CPI's accepted stemcell formats; empty when unknown. */
  readonly defaultFormats: readonly string[];
}

/** The known facts about a call's object. */
export interface Wanted {
  readonly method: CpiMethod;
  readonly az: string;
  /** The CPI that the cloud config assigns to the AZ. */
  readonly azCpi: string;
  /** The CPI recorded with the VM, disk, snapshot or stemcell. */
  readonly recordedCpi: string;
  readonly unknownId: boolean;
  /** The other CPIs are searched for an object that its CPI does not know. */
  readonly askOthers: boolean;
  /** The stemcell's formats for create_stemcell; empty when unknown. */
  readonly stemcellFormats: readonly string[];
  /** CPIs that already have the stemcell, or that have another object with the same id. */
  readonly exceptCpis: readonly string[];
}

/** The CPIs to call. */
export type Choice =
  | { readonly kind: "one"; readonly name: string }
  /** Searched for the object. Unless nothing is recorded about the id, the first is the object's own CPI. */
  | { readonly kind: "search"; readonly names: readonly string[] }
  | { readonly kind: "every"; readonly names: readonly string[] };

/** Selects the dispatcher's own default CPI regardless of the cpi-config. */
export const DEFAULT_CPI = "";

const SEARCHES: ReadonlySet<CpiMethod> = new Set(["delete_vm", "delete_disk", "delete_snapshot"]);

/** Methods that create an object in an AZ or query what could be created there. */
const GOES_BY_AZ: ReadonlySet<CpiMethod> = new Set([
  "create_vm",
  "create_disk",
  "calculate_vm_cloud_properties",
  "get_capacity",
  "info",
]);

const MAKES: ReadonlySet<CpiMethod> = new Set(["create_vm", "create_disk"]);

/**
 * Chooses the CPIs of a call. The recorded CPI takes precedence over the AZ. Without a record, an existing object
 * belongs to the default CPI, or to the CPI that has adopted the default CPI's objects; a new object belongs to the
 * AZ's CPI.
 */
export function chooseCpis(offer: Offer, wanted: Wanted): Choice {
  const { method, recordedCpi, azCpi } = wanted;
  if (method === "create_stemcell" && recordedCpi === "") return { kind: "every", names: fitting(offer, wanted) };
  if (SEARCHES.has(method) && (wanted.unknownId || wanted.askOthers))
    return { kind: "search", names: searched(offer, wanted) };
  if (recordedCpi !== "") return { kind: "one", name: nameOf(offer, recordedCpi) };
  if (!GOES_BY_AZ.has(method)) return { kind: "one", name: defaultOf(offer) };
  if (azCpi !== "") return { kind: "one", name: nameOf(offer, azCpi) };
  if (wanted.az !== "" && offer.isConfigured && MAKES.has(method))
    throw new InvalidStateError(
      `AZ '${wanted.az}' must specify a CPI when CPI config is defined. Give it a cpi in the cloud config.`,
      { about: { az: wanted.az, bosh_error_code: "550001" } },
    );
  return { kind: "one", name: defaultOf(offer) };
}

/** Returns the name of the CPI with this present name, otherwise with this former name. */
function nameOf(offer: Offer, name: string): string {
  const found = cpiNamed(offer.cpis, name);
  if (found) return found.name;
  const because = offer.isConfigured ? "" : " (because cpi-config is not set)";
  const names = offer.cpis.map((cpi) => cpi.name).join(", ");
  throw new CpiUnusableError(`CPI '${plain(name)}' not found in cpi-config${because}: there are ${names}`, {
    about: { cpi: plain(name) },
  });
}

function defaultOf(offer: Offer): string {
  if (!offer.isConfigured) return DEFAULT_CPI;
  return offer.cpis.find(({ migratedFrom }) => migratedFrom.includes(""))?.name ?? DEFAULT_CPI;
}

function searched(offer: Offer, { recordedCpi, unknownId, exceptCpis }: Wanted): readonly string[] {
  const own = recordedCpi === "" ? defaultOf(offer) : nameOf(offer, recordedCpi);
  // The default CPI is among the dispatcher's own CPIs and is available in addition to the configured CPIs.
  const all = offer.isConfigured ? [...offer.cpis.map(({ name }) => name), defaultOf(offer)] : ownNames(offer);
  const except = exceptCpis.map((name) => (name === "" ? defaultOf(offer) : cpiNamed(offer.cpis, name)?.name));
  const others = new Set(all.filter((name) => !except.includes(name)));
  if (unknownId) return [...others];
  return [own, ...[...others].filter((name) => name !== own)];
}

/** Returns the dispatcher's own CPIs, the default CPI first and under its empty name. */
function ownNames(offer: Offer): readonly string[] {
  const others = offer.cpis.map(({ name }) => name).filter((name) => name !== offer.defaultCpi);
  return [DEFAULT_CPI, ...others];
}

/**
 * Returns the CPIs that take the stemcell and do not have it. The default CPI is one of them beside a cpi-config, too,
 * because instances without an AZ use it.
 */
function fitting(offer: Offer, { stemcellFormats, exceptCpis }: Wanted): readonly string[] {
  const takes = (cpi: Choosable) =>
    cpi.stemcellFormats.length === 0 ||
    stemcellFormats.length === 0 ||
    cpi.stemcellFormats.some((format) => stemcellFormats.includes(format));
  const byDefault = { name: DEFAULT_CPI, migratedFrom: [], stemcellFormats: offer.defaultFormats };
  const isBeside = offer.isConfigured && defaultOf(offer) === DEFAULT_CPI;
  const all = isBeside ? [...offer.cpis, byDefault] : offer.cpis;
  const takers = all.filter(takes);
  if (takers.length === 0)
    throw new InvalidStateError(
      `no CPI takes a stemcell of the formats ${stemcellFormats.map((format) => quoted(format)).join(", ")}: ` +
        `upload a stemcell for ${all.map(({ name }) => name || "the default CPI").join(", ")}`,
    );
  const isDefault = (name: string): boolean => !offer.isConfigured && name === offer.defaultCpi;
  const hasIt = ({ name, migratedFrom }: Choosable) =>
    [name, ...migratedFrom, ...(isDefault(name) ? [DEFAULT_CPI] : [])].some((one) => exceptCpis.includes(one));
  return takers.filter((cpi) => !hasIt(cpi)).map(({ name }) => name);
}

/** Maximum CPIs in a cpi-config, because ListCpis calls each CPI. */
const MAX_CPIS = 100;

/** Throws for a cpi-config with a malformed name, or with a present or former name used by two CPIs. */
export function checkCpiNames(cpis: readonly NamedCpi[], maxCpis = MAX_CPIS): void {
  if (cpis.length === 0)
    throw new InvalidArgumentError("the cpi-config has no CPI: add a CPI, or delete the cpi-config");
  if (cpis.length > maxCpis)
    throw new InvalidArgumentError(`the cpi-config has ${cpis.length} CPIs: at most ${maxCpis} are allowed`);
  for (const { name, migratedFrom } of cpis) {
    if (!CPI_NAME_PATTERN.test(name))
      throw new InvalidArgumentError(`the CPI name ${quoted(name)} is malformed: ${CPI_NAME_RULE}`);
    for (const former of migratedFrom)
      if (former !== "" && !CPI_NAME_PATTERN.test(former))
        throw new InvalidArgumentError(`CPI ${name} is migrated from ${quoted(former)}, which is not a valid CPI name`);
  }
  const { name, users } = nameOfTwo(cpis) ?? {};
  if (name === undefined || users === undefined) return;
  throw new CpiConfigInvalidError(`Duplicate CPI name '${name}': it stands for '${users[0]}' and for '${users[1]}'`, {
    about: { cpi: users[1], bosh_error_code: "550000" },
  });
}

function plain(name: string): string {
  return quoted(name).slice(1, -1);
}
