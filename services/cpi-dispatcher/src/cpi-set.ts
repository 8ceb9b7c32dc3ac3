import { type Cpi, type CpiCall, type CpiInfo, CpiUnusableError } from "@diskmesh/cpi";
import { CancelledError, messageOf, NotFoundError } from "@diskmesh/domain";
import { endingEarly, timeLeftMs } from "./ending-early.js";
import { type Choice, chooseCpis, DEFAULT_CPI, type Offer, type Wanted } from "./model/choice.js";

const MAX_ERROR_LENGTH = 1_000;

/** Time limit for the infos of all CPIs before the work itself; a quarter of the call's time if that is less. */
const MAX_INFOS_MS = 60_000;

/** Stands for a CPI that could not be made of its description, so that the others serve all the same. */
export interface UnusableCpi {
  readonly why: string;
}

/** A CPI as the dispatcher offers it. */
export class OfferedCpi {
  /** The error of its last call; empty after a success. */
  lastError = "";

  constructor(
    readonly name: string,
    readonly type: string,
    private readonly cpi: Cpi | UnusableCpi,
    readonly migratedFrom: readonly string[] = [],
  ) {}

  /** Asks the CPI for its info. The outcome is not remembered, because no other call depends on it. */
  async info(call: CpiCall): Promise<CpiInfo> {
    return this.#usable().info(call);
  }

  /** Calls the CPI and remembers how it went. */
  async run<Result>(work: (cpi: Cpi) => Promise<Result>): Promise<Result> {
    try {
      const result = await work(this.#usable());
      this.lastError = "";
      return result;
    } catch (error) {
      // That something is not there, or not wanted any more, says nothing bad of the CPI.
      if (error instanceof NotFoundError) this.lastError = "";
      else if (!(error instanceof CancelledError)) this.lastError = messageOf(error).slice(0, MAX_ERROR_LENGTH);
      throw error;
    }
  }

  #usable(): Cpi {
    if (!("why" in this.cpi)) return this.cpi;
    throw new CpiUnusableError(`CPI ${this.name} cannot be used, since its description is wrong: ${this.cpi.why}`, {
      about: { cpi: this.name },
    });
  }
}

/** A CPI that was chosen, and the name under which it is recorded. */
export interface ChosenCpi {
  readonly offered: OfferedCpi;
  /** Empty for the default CPI. */
  readonly recordedName: string;
}

/** The CPIs of one version of a cpi-config, or the dispatcher's own. */
export class CpiSet {
  constructor(
    readonly cpis: readonly OfferedCpi[],
    /** The dispatcher's own first CPI. */
    readonly defaultCpi: OfferedCpi,
    private readonly isConfigured: boolean,
  ) {}

  /** Chooses CPIs. Their infos matter for stemcells alone; for anything else none is asked. */
  async choose(wanted: Wanted, call: CpiCall): Promise<{ kind: Choice["kind"]; cpis: readonly ChosenCpi[] }> {
    const isForAll = wanted.method === "create_stemcell" && wanted.recordedCpi === "";
    const formats = isForAll ? await this.#stemcellFormats(wanted, call) : new Map<string, readonly string[]>();
    const offer: Offer = {
      isConfigured: this.isConfigured,
      defaultCpi: this.defaultCpi.name,
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

  /** Returns the formats of the CPIs that do not have the stemcell yet. */
  async #stemcellFormats(wanted: Wanted, call: CpiCall): Promise<ReadonlyMap<string, readonly string[]>> {
    const maxMs = Math.min(MAX_INFOS_MS, timeLeftMs(call) / 4);
    const asked = this.cpis.filter(
      ({ name, migratedFrom }) => ![name, ...migratedFrom].some((one) => wanted.exceptCpis.includes(one)),
    );
    const infos = await Promise.all(
      asked.map(async (cpi): Promise<[string, readonly string[]]> => {
        // One that cannot say is asked to make the stemcell and fails by itself, without hurting the others.
        const info: CpiInfo | undefined = await endingEarly(call, (one) => cpi.info(one), maxMs).catch(() => undefined);
        return [cpi.name, info?.stemcellFormats ?? []];
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
