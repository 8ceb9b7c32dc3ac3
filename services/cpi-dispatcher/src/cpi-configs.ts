import { CpiConfigUnknownError } from "@diskmesh/cpi";
import { AlreadyExistsError, MIB_BYTES, quoted, ResourceExhaustedError } from "@diskmesh/domain";
import type { CpiSet } from "./cpi-set.js";

/** Versions of a director's cpi-config that are kept: calls of the last one may still be on their way. */
const VERSIONS_KEPT = 2;

interface CpiConfigLimits {
  /** The most bytes of all kept versions of all directors, as received. */
  readonly maxCpiConfigBytes: number;
  /** How long a version is kept after the next one was told. */
  readonly formerCpiConfigMs: number;
}

/** Cpi-configs are kept in memory alone. Calls that name a former version arrive within a minute. */
const LIMITS: CpiConfigLimits = { maxCpiConfigBytes: 64 * MIB_BYTES, formerCpiConfigMs: 60_000 };

/** Azs by the name of the CPI that the cloud config gives them. */
export type AzsByCpi = ReadonlyMap<string, readonly string[]>;

interface KnownSet {
  readonly set: CpiSet;
  /** Tells whether the same set is told again. */
  readonly fingerprint: string;
  readonly azs: AzsByCpi;
  readonly sizeBytes: number;
}

/** CPIs as they are listed. */
export interface Offered {
  /** Empty for the dispatcher's own. */
  readonly directorId: string;
  readonly set: CpiSet;
  readonly azs: AzsByCpi;
}

/** A director's cpi-config, without the CPIs themselves. */
export interface ToldConfig {
  readonly version: string;
  readonly fingerprint: string;
  readonly azs: AzsByCpi;
  readonly sizeBytes: number;
}

/** The cpi-configs that directors told. In memory alone: who names one that is not here tells it again. */
export class CpiConfigs {
  readonly #byDirector = new Map<string, Map<string, KnownSet>>();

  constructor(
    readonly own: CpiSet,
    private readonly limits: CpiConfigLimits = LIMITS,
  ) {}

  /** The CPIs of a call: the dispatcher's own when it names no version. */
  find(directorId: string, version: string): Offered {
    if (version === "") return { directorId: "", set: this.own, azs: new Map() };
    const known = this.#byDirector.get(directorId)?.get(version);
    if (known) return { directorId, ...known };
    throw new CpiConfigUnknownError(
      `version ${quoted(version)} of the cpi-config is not known to this dispatcher: tell it by SetCpiConfig`,
      { about: { cpi_config_version: version.slice(0, 64) } },
    );
  }

  /** The dispatcher's own CPIs, then those of the version that each director told last. */
  newest(): Offered[] {
    const offered = [this.find("", "")];
    for (const [directorId, versions] of [...this.#byDirector].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const last = [...versions.values()].at(-1);
      if (last) offered.push({ directorId, ...last });
    }
    return offered;
  }

  /** There is no cpi-config any more. A call that names one is refused, and the director looks again. */
  forget(directorId: string): void {
    this.#byDirector.delete(directorId);
  }

  /** Keeps a version, and for some time the one before it. */
  set(directorId: string, told: ToldConfig, make: () => CpiSet): void {
    const { version, fingerprint, azs, sizeBytes } = told;
    const before = this.#byDirector.get(directorId) ?? new Map<string, KnownSet>();
    const known = before.get(version);
    if (known && known.fingerprint !== fingerprint)
      throw new AlreadyExistsError(
        `version ${quoted(version)} of the cpi-config names other CPIs: choose another name`,
      );
    const versions = new Map(before);
    // So that what was told last is the last.
    versions.delete(version);
    versions.set(version, { set: known?.set ?? make(), fingerprint, azs, sizeBytes });
    for (const [old] of versions) if (versions.size > VERSIONS_KEPT) versions.delete(old);
    this.#refuseTooLarge(directorId, versions);
    this.#byDirector.set(directorId, versions);
    this.#forgetFormerLater(directorId, versions);
  }

  #refuseTooLarge(directorId: string, versions: ReadonlyMap<string, KnownSet>): void {
    const { maxCpiConfigBytes } = this.limits;
    const all = new Map(this.#byDirector).set(directorId, new Map(versions));
    let totalBytes = 0;
    for (const one of all.values()) for (const { sizeBytes } of one.values()) totalBytes += sizeBytes;
    if (totalBytes > maxCpiConfigBytes)
      throw new ResourceExhaustedError(
        `the cpi-configs of all directors would have ${totalBytes} bytes, more than ${maxCpiConfigBytes}`,
      );
  }

  /** A call that names it after that is refused, and its director tells it again. */
  #forgetFormerLater(directorId: string, versions: Map<string, KnownSet>): void {
    const former = [...versions.keys()].slice(0, -1);
    if (former.length === 0) return;
    setTimeout(() => {
      if (this.#byDirector.get(directorId) !== versions) return;
      for (const version of former) versions.delete(version);
    }, this.limits.formerCpiConfigMs).unref();
  }
}
