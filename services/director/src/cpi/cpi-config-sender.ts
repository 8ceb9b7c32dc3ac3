import { type Logger, messageOf } from "@diskmesh/domain";
import type { ReadersOfTexts } from "../configs/readers-of-texts.js";
import { currentCpi } from "../specs/cpi-choice.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { CpiConfigSource } from "./cpi-calls.js";
import type { Dispatcher, Dispatchers } from "./dispatchers.js";

export interface CpiConfigSenderOptions {
  readonly dispatchers: Pick<Dispatchers, "obeying">;
  readonly tablet: DirectorTablet;
  readonly configs: Pick<ReadersOfTexts, "cloud" | "cpi">;
  readonly callTimeoutMs: number;
  readonly log: Logger;
}

/**
 * Sends the CPIs to the dispatchers: after each config change, and when a dispatcher reports that it lacks the config.
 * A failure is only logged, because the next call that needs the config sends it again.
 */
export class CpiConfigSender implements CpiConfigSource {
  readonly #options: CpiConfigSenderOptions;
  readonly #stopping = new AbortController();
  #unwatch: () => void = () => {};

  constructor(options: CpiConfigSenderOptions) {
    this.#options = options;
  }

  version(): Promise<string> {
    return this.#options.tablet.read((tables) => this.#options.configs.cpi.current(tables).version);
  }

  /** Starts sending configs. Call only after all dispatchers in use refuse former directors. */
  start(): void {
    this.#unwatch = this.#options.tablet.watch((changes) => {
      if (changes.some(({ table }) => table === "configs")) this.#sendAllSoon();
    });
    this.#sendAllSoon();
  }

  close(): void {
    this.#unwatch();
    this.#stopping.abort();
  }

  async send({ client }: Pick<Dispatcher, "client">, signal: AbortSignal): Promise<void> {
    const { tablet, configs, callTimeoutMs } = this.#options;
    const { version, cpis, azs } = await tablet.read((tables) => ({
      ...configs.cpi.current(tables),
      azs: configs.cloud.current(tables).azs,
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

  /** Sends the config without waiting, because a dispatcher that has just accepted this director lacks the config. */
  sendSoon(dispatcher: Dispatcher): void {
    this.send(dispatcher, this.#stopping.signal).catch((error: unknown) => {
      const what = { dispatcher: dispatcher.address, error: messageOf(error) };
      if (!this.#stopping.signal.aborted) this.#options.log.warn(what, "cpi-config delivery failed");
    });
  }

  #sendAllSoon(): void {
    for (const dispatcher of this.#options.dispatchers.obeying) this.sendSoon(dispatcher);
  }
}
