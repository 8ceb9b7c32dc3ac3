import { type Logger, messageOf } from "@diskmesh/domain";

import { currentCpi } from "../model/cpi-choice.js";
import type { DirectorTablet } from "../stored-schema.js";
import type { CloudConfigs } from "../yaml/cloud-configs.js";
import type { CpiConfigs } from "../yaml/cpi-configs.js";
import type { CpiClient, CpiConfigSource } from "./cpi-calls.js";

export interface CpiConfigTellerOptions {
  readonly client: Pick<CpiClient, "setCpiConfig">;
  readonly tablet: DirectorTablet;
  readonly cpiConfigs: CpiConfigs;
  /** Which azs they serve is told too, for those who list CPIs. */
  readonly cloudConfigs: CloudConfigs;
  readonly callTimeoutMs: number;
  readonly log: Logger;
}

/**
 * Tells the dispatcher which CPIs there are: after each change, and when it says that it does not know. A failure here
 * is no failure of anything: the next call that needs the config finds out, and has it told again.
 */
export class CpiConfigTeller implements CpiConfigSource {
  readonly #options: CpiConfigTellerOptions;
  readonly #stopping = new AbortController();
  #unwatch: () => void = () => {};

  constructor(options: CpiConfigTellerOptions) {
    this.#options = options;
  }

  version(): Promise<string> {
    return this.#options.tablet.read((tables) => this.#options.cpiConfigs.current(tables).version);
  }

  /** Only the one director that dispatchers obey may do so. */
  start(): void {
    this.#unwatch = this.#options.tablet.watch((changes) => {
      if (changes.some(({ table }) => table === "configs")) this.#tellSoon();
    });
    this.#tellSoon();
  }

  close(): void {
    this.#unwatch();
    this.#stopping.abort();
  }

  async tell(signal: AbortSignal): Promise<void> {
    const { client, tablet, cpiConfigs, cloudConfigs, callTimeoutMs } = this.#options;
    const { version, cpis, azs } = await tablet.read((tables) => ({
      ...cpiConfigs.current(tables),
      azs: cloudConfigs.current(tables).azs,
    }));
    const azsOf = new Map<string, string[]>((cpis ?? []).map((cpi) => [cpi.name, []]));
    for (const az of azs) {
      if (az.cpi !== "") azsOf.get(currentCpi(az.cpi, { cpis }) ?? "")?.push(az.name);
    }
    await client.setCpiConfig(
      {
        directorId: tablet.id,
        directorGeneration: tablet.generation,
        cpiConfigVersion: version,
        cpis: (cpis ?? []).map(({ migratedFrom, properties, ...cpi }) => ({
          ...cpi,
          migratedFrom: [...migratedFrom],
          properties: { ...properties },
          azs: azsOf.get(cpi.name) ?? [],
        })),
      },
      { signal, deadlineMs: callTimeoutMs },
    );
  }

  #tellSoon(): void {
    this.tell(this.#stopping.signal).catch((error: unknown) => {
      if (!this.#stopping.signal.aborted)
        this.#options.log.warn({ error: messageOf(error) }, "cannot tell the dispatcher the cpi-config yet");
    });
  }
}
