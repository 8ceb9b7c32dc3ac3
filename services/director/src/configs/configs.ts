import { InvalidStateError, messageOf } from "@diskmesh/domain";
import type { Config } from "../store/config.js";
import type { DirectorTables } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { storedLimits, type TextLimits } from "../yaml/document.js";
import type { ReadOptions, YamlReader } from "../yaml/reader.js";
import { latestConfigs } from "./latest-configs.js";

/** A parsed config with its name. */
export interface NamedPart<Part> {
  readonly name: string;
  readonly part: Part;
}

export interface ConfigsOptions<Part, Merged> {
  readonly type: string;
  readonly reader: YamlReader;
  readonly limits: Omit<TextLimits, "what">;
  readonly read: (reader: YamlReader, text: string, limits: TextLimits, options: ReadOptions) => Promise<Part>;
  /** Merges the latest version of each config of the type. Throws when the configs conflict. */
  readonly merge: (parts: readonly NamedPart<Part>[], configs: readonly Config[]) => Merged;
}

type Kept<Part> = { readonly part: Part } | { readonly error: Error };

/**
 * All configs of a type. Each version is parsed once, at its upload or when the director starts to lead, so that
 * readers do not wait.
 */
export class Configs<Part, Merged> {
  readonly #options: ConfigsOptions<Part, Merged>;
  /** The latest version of each config, by config id. */
  readonly #parts = new Map<number, Kept<Part>>();
  #merged: { readonly lastConfigId: number; readonly merged: Merged } | undefined;

  constructor(options: ConfigsOptions<Part, Merged>) {
    this.#options = options;
  }

  /**
   * Parses the stored configs. A config that cannot be parsed does not fail the start. Its readers fail until the
   * config is replaced.
   */
  async load(tablet: DirectorTablet): Promise<void> {
    const { type, reader, read } = this.#options;
    const configs = await tablet.read((tables) => latestConfigs(tables, type));
    const load = async ({ configId, name, content }: Config): Promise<void> => {
      const what = whatOf(type, name);
      const kept = await read(reader, content, storedLimits(what), { stored: true }).then(
        (part) => ({ part }),
        (error: unknown) => ({
          error: new InvalidStateError(`the stored ${what} cannot be used: ${messageOf(error)}; update or delete it`),
        }),
      );
      this.#parts.set(configId, kept);
    };
    await Promise.all(configs.map(load));
  }

  /** Parses a new config. Throws InvalidArgumentError for content that is not accepted. */
  read(name: string, content: string, signal: AbortSignal): Promise<Part> {
    const { type, reader, limits, read } = this.#options;
    return read(reader, content, { ...limits, what: whatOf(type, name) }, { signal });
  }

  /** Stores the parsed config. Call in the transaction that records the config. */
  keep(config: Config, part: Part): void {
    this.#parts.set(config.configId, { part });
  }

  current(tables: DirectorTables): Merged {
    const lastConfigId = tables.counters.get("config")?.value ?? 0;
    if (this.#merged?.lastConfigId !== lastConfigId) {
      const latest = latestConfigs(tables, this.#options.type);
      const ids = new Set(latest.map(({ configId }) => configId));
      for (const configId of this.#parts.keys()) if (!ids.has(configId)) this.#parts.delete(configId);
      this.#merged = { lastConfigId, merged: this.#merge(latest) };
    }
    return this.#merged.merged;
  }

  /**
   * Returns all configs merged with the new content of one config, or without that config when `part` is undefined.
   * Throws when the configs conflict.
   */
  check(tables: DirectorTables, name: string, part: Part | undefined): Merged {
    const others = latestConfigs(tables, this.#options.type).filter((config) => config.name !== name);
    return this.#merge(others, part === undefined ? [] : [{ name, part }]);
  }

  #merge(configs: readonly Config[], more: readonly NamedPart<Part>[] = []): Merged {
    const parts = configs.map(({ name, configId }) => ({ name, part: this.#partOf(configId) }));
    return this.#options.merge([...parts, ...more], configs);
  }

  #partOf(configId: number): Part {
    const kept = this.#parts.get(configId);
    if (kept === undefined) throw new TypeError(`config ${configId} was used before it was read`);
    if ("error" in kept) throw kept.error;
    return kept.part;
  }
}

function whatOf(type: string, name: string): string {
  return `${type} config \`${name}\``;
}
