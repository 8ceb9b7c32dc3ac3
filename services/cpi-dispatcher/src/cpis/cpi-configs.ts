import { CpiConfigUnknownError } from "@diskmesh/cpi";
import { AlreadyExistsError, MIB_BYTES, quoted, ResourceExhaustedError } from "@diskmesh/domain";
import type { CpiSet } from "./cpi-set.js";

/**
 * Number of versions of a director's cpi-config that are kept. Calls with the previous version may still be in flight.
 */
const VERSIONS_KEPT = 2;

interface CpiConfigLimits {
  /** Maximum bytes, as received, of all kept versions of all directors. */
  readonly maxCpiConfigBytes: number;
  /** Time for which a version is kept after its successor was set. */
  readonly formerCpiConfigMs: number;
}

/** Cpi-configs are kept in memory only. Calls with a former version arrive within a minute. */
const LIMITS: CpiConfigLimits = { maxCpiConfigBytes: 64 * MIB_BYTES, formerCpiConfigMs: 60_000 };

/** AZs by the CPI name that the cloud config assigns to them. */
export type AzsByCpi = ReadonlyMap<string, readonly string[]>;

interface KnownSet {
  readonly set: CpiSet;
  /** Identifies a repeated SetCpiConfig of the same CPIs. */
  readonly fingerprint: string;
  readonly azs: AzsByCpi;
  readonly sizeBytes: number;
}

/** A set of CPIs, and the director that sent it. */
export interface Offered {
  /** Empty for the dispatcher's own CPIs. */
  readonly directorId: string;
  readonly set: CpiSet;
  readonly azs: AzsByCpi;
}

/** A received cpi-config, without the CPIs themselves. */
export interface ToldConfig {
  readonly version: string;
  readonly fingerprint: string;
  readonly azs: AzsByCpi;
  readonly sizeBytes: number;
}

/**
 * The cpi-configs sent by directors. They are in memory only; a director whose version is unknown sends its cpi-config
 * again.
 */
export class CpiConfigs {
  readonly #byDirector = new Map<string, Map<string, KnownSet>>();

  constructor(
    readonly own: CpiSet,
    private readonly limits: CpiConfigLimits = LIMITS,
  ) {}

  /**
   * Returns the CPIs of a version; an empty version means the dispatcher's own CPIs. Throws CpiConfigUnknownError for
   * an unknown version.
   */
  find(directorId: string, version: string): Offered {
    if (version === "") return { directorId: "", set: this.own, azs: new Map() };
    const known = this.#byDirector.get(directorId)?.get(version);
    if (known) return { directorId, ...known };
    throw new CpiConfigUnknownError(
      `version ${quoted(version)} of the cpi-config is not known to this dispatcher: call SetCpiConfig first`,
      { about: { cpi_config_version: version.slice(0, 64) } },
    );
  }

  /** Returns the dispatcher's own CPIs, then the latest version of each director. */
  newest(): Offered[] {
    const offered = [this.find("", "")];
    for (const [directorId, versions] of [...this.#byDirector].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const last = [...versions.values()].at(-1);
      if (last) offered.push({ directorId, ...last });
    }
    return offered;
  }

  /**
   * Removes a director's cpi-config. Later calls that name a version are refused, and the director reads its config
   * again.
   */
  forget(directorId: string): void {
    this.#byDirector.delete(directorId);
  }

  /** Stores a version and keeps the previous version for some time. */
  set(directorId: string, told: ToldConfig, make: () => CpiSet): void {
    const { version, fingerprint, azs, sizeBytes } = told;
    const before = this.#byDirector.get(directorId) ?? new Map<string, KnownSet>();
    const known = before.get(version);
    if (known && known.fingerprint !== fingerprint)
      throw new AlreadyExistsError(
        `version ${quoted(version)} of the cpi-config already has other CPIs: choose another version name`,
      );
    const versions = new Map(before);
    // Moves the version to the end, because the last entry is the latest.
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
        `the cpi-configs of all directors would have ${totalBytes} bytes: the limit is ${maxCpiConfigBytes}`,
      );
  }

  /**
   * Removes former versions after their keep time. A later call that names such a version is refused, and the director
   * sends it again.
   */
  #forgetFormerLater(directorId: string, versions: Map<string, KnownSet>): void {
    const former = [...versions.keys()].slice(0, -1);
    if (former.length === 0) return;
    setTimeout(() => {
      if (this.#byDirector.get(directorId) !== versions) return;
      for (const version of former) versions.delete(version);
    }, this.limits.formerCpiConfigMs).unref();
  }
}
