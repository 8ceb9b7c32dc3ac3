import { isDeepStrictEqual } from "node:util";
import { messageOf } from "@diskmesh/domain";
import { WatchedFiles } from "@diskmesh/tls";
import type { LoadedConfig } from "../config/load.js";
import { isMapping } from "../config/places.js";
import type { ServiceConfig } from "../config/service-config.js";
import type { ServiceLogger } from "../telemetry/log.js";

/**
 * Applies a reloaded config. Returns the parts of the config that are in effect now; keys whose value differs from the
 * file's are logged as needing a restart.
 */
export type ApplyReload<Config> = (config: Config) => Partial<Config>;

/**
 * Reloads the config of a running process and applies the keys that can change, such as the log level. Also checks the
 * TLS files.
 */
export class Reload<Config extends ServiceConfig> {
  #config: Config;
  /** Set by the started service. */
  apply: ApplyReload<Config> = () => ({});

  constructor(
    config: Config,
    private readonly load: () => LoadedConfig<Config>,
    private readonly log: ServiceLogger,
  ) {
    this.#config = config;
  }

  /** A wrong config changes nothing. Changed keys that need a restart are logged. */
  run(): void {
    WatchedFiles.readAll();
    let config: Config;
    let warnings: readonly string[];
    try {
      ({ config, warnings } = this.load());
    } catch (error) {
      this.log.error({ error: messageOf(error) }, "config reload failed, previous config kept");
      return;
    }
    for (const warning of warnings) this.log.warn({}, warning);
    const { level } = config.log;
    this.log.setLevel(level);
    this.#config = { ...this.#config, log: { ...this.#config.log, level }, ...this.apply(config) };
    const needRestart = changedKeys(this.#config, config);
    const rest = needRestart.length === 0 ? "" : `; restart needed for ${needRestart.join(", ")}`;
    this.log.warn({ level, needRestart }, `config reloaded: log level ${level}${rest}`);
  }
}

/** Returns the names of keys with another value, and no values, which may be secrets. */
export function changedKeys(before: unknown, after: unknown, path = ""): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isMapping(before) || !isMapping(after)) return [path];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.flatMap((name) => changedKeys(before[name], after[name], path === "" ? name : `${path}.${name}`));
}
