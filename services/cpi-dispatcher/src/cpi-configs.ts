import { AlreadyExistsError, quoted } from "@diskmesh/domain";
import type { CpiSet } from "./cpi-set.js";
import { CpiConfigUnknownError } from "./model/errors.js";

/** Versions of a director's cpi-config that are kept: calls of the last one may still be on their way. */
const VERSIONS_KEPT = 2;

interface KnownSet {
  readonly set: CpiSet;
  /** Tells whether the same set is told again. */
  readonly fingerprint: string;
}

/** The cpi-configs that directors told. In memory alone: who names one that is not here tells it again. */
export class CpiConfigs {
  readonly #byDirector = new Map<string, Map<string, KnownSet>>();

  constructor(readonly own: CpiSet) {}

  /** The CPIs of a call: the dispatcher's own when it names no version. */
  find(directorId: string, version: string): CpiSet {
    if (version === "") return this.own;
    const known = this.#byDirector.get(directorId)?.get(version);
    if (known) return known.set;
    throw new CpiConfigUnknownError(
      `version ${quoted(version)} of the cpi-config is not known to this dispatcher: tell it by SetCpiConfig`,
      { about: { cpi_config_version: version.slice(0, 64) } },
    );
  }

  /** Keeps a version, and the one before it. */
  set(directorId: string, version: string, fingerprint: string, make: () => CpiSet): void {
    const versions = this.#byDirector.get(directorId) ?? new Map<string, KnownSet>();
    const known = versions.get(version);
    if (known?.fingerprint === fingerprint) return;
    if (known)
      throw new AlreadyExistsError(
        `version ${quoted(version)} of the cpi-config names other CPIs: choose another name`,
      );
    versions.set(version, { set: make(), fingerprint });
    for (const [old] of versions) if (versions.size > VERSIONS_KEPT) versions.delete(old);
    this.#byDirector.set(directorId, versions);
  }
}
