import { type Cpi, type CpiCall, type CpiInfo, CpiUnusableError } from "@diskmesh/cpi";
import { CancelledError, messageOf, NotFoundError } from "@diskmesh/domain";
import { type Choice, chooseCpis, DEFAULT_CPI, type Offer, type Wanted } from "../model/choice.js";
import { endingEarly, timeLeftMs } from "./ending-early.js";

const MAX_ERROR_LENGTH = 1_000;

/** Time limit for the info calls to all CPIs before the actual call; at most a quarter of the call's remaining time. */
const MAX_INFOS_MS = 60_000;

/** Replaces a CPI whose description is invalid, so that the other CPIs stay usable. */
export interface UnusableCpi {
  readonly why: string;
}

/** A CPI that the dispatcher offers. */
export class OfferedCpi {
  /** The error of the last call; empty after a success. */
  lastError = "";

  constructor(
    readonly name: string,
    readonly type: string,
    private readonly cpi: Cpi | UnusableCpi,
    readonly migratedFrom: readonly string[] = [],
  ) {}

  /**
   * Calls the CPI's info method. The outcome is not recorded as the last error, because no other call depends on it.
   */
  async info(call: CpiCall): Promise<CpiInfo> {
    return this.#usable().info(call);
  }

  /** Calls the CPI and records the outcome as the last error. */
  async run<Result>(work: (cpi: Cpi) => Promise<Result>): Promise<Result> {
    try {
      const result = await work(this.#usable());
      this.lastError = "";
      return result;
    } catch (error) {
      // A missing object or a cancelled call is no fault of the CPI.
      if (error instanceof NotFoundError) this.lastError = "";
      else if (!(error instanceof CancelledError)) this.lastError = messageOf(error).slice(0, MAX_ERROR_LENGTH);
      throw error;
    }
  }

  #usable(): Cpi {
    if (!("why" in this.cpi)) return this.cpi;
    throw new CpiUnusableError(`CPI ${this.name} cannot be used, because its description is wrong: ${this.cpi.why}`, {
      about: { cpi: this.name },
    });
  }
}

/** A chosen CPI with the name to record for its objects. */
export interface ChosenCpi {
  readonly offered: OfferedCpi;
  /** Empty for the default CPI. */
  readonly recordedName: string;
}

/** The CPIs of a cpi-config version, or the dispatcher's own CPIs. */
export class CpiSet {
  constructor(
    readonly cpis: readonly OfferedCpi[],
    /** The first CPI in the dispatcher's own config. */
    readonly defaultCpi: OfferedCpi,
    private readonly isConfigured: boolean,
  ) {}

  /** Chooses the CPIs of a call. Calls the CPIs' info methods only for stemcells. */
  async choose(wanted: Wanted, call: CpiCall): Promise<{ kind: Choice["kind"]; cpis: readonly ChosenCpi[] }> {
    const isForAll = wanted.method === "create_stemcell" && wanted.recordedCpi === "";
    const formats = isForAll ? await this.#stemcellFormats(wanted, call) : new Map<string, readonly string[]>();
    const offer: Offer = {
      isConfigured: this.isConfigured,
      defaultCpi: this.defaultCpi.name,
      defaultFormats: formats.get(DEFAULT_CPI) ?? [],
      cpis: this.cpis.map(({ name, migratedFrom }) => ({
        name,
        migratedFrom,
        stemcellFormats: formats.get(name) ?? [],
      })),
    };
    const choice = chooseCpis(offer, wanted);
    const names = choice.kind === "one" ? [choice.name] : choice.names;
    return { kind: choice.kind, cpis: names.map((name) => this.#chosen(name)) };
  }

  /** Returns the stemcell formats of the CPIs that do not have the stemcell yet. */
  async #stemcellFormats(wanted: Wanted, call: CpiCall): Promise<ReadonlyMap<string, readonly string[]>> {
    const maxMs = Math.min(MAX_INFOS_MS, timeLeftMs(call) / 4);
    const all = new Map(this.cpis.map((cpi) => [cpi.name, cpi]));
    const isAdopted = this.cpis.some(({ migratedFrom }) => migratedFrom.includes(DEFAULT_CPI));
    if (this.isConfigured && !isAdopted) all.set(DEFAULT_CPI, this.defaultCpi);
    const asked = [...all].filter(
      ([name, { migratedFrom }]) => ![name, ...migratedFrom].some((one) => wanted.exceptCpis.includes(one)),
    );
    const infos = await Promise.all(
      asked.map(async ([name, cpi]): Promise<[string, readonly string[]]> => {
        // A CPI whose info fails counts as accepting every format. Its create_stemcell then fails without affecting the
        // others.
        const info: CpiInfo | undefined = await endingEarly(call, (one) => cpi.info(one), maxMs).catch(() => undefined);
        return [name, info?.stemcellFormats ?? []];
      }),
    );
    call.signal.throwIfAborted();
    return new Map(infos);
  }

  #chosen(name: string): ChosenCpi {
    const offered =
      name === DEFAULT_CPI ? this.defaultCpi : (this.cpis.find((cpi) => cpi.name === name) ?? this.defaultCpi);
    const isDefault = offered === this.defaultCpi;
    return { offered, recordedName: isDefault ? DEFAULT_CPI : offered.name };
  }
}
