import { isDeepStrictEqual } from "node:util";
import { messageOf } from "@diskmesh/domain";
import { WatchedFiles } from "@diskmesh/tls";
import type { LoadedConfig } from "../config/load.js";
import { isMapping } from "../config/places.js";
import type { ServiceConfig } from "../config/service-config.js";
import type { ServiceLogger } from "../telemetry/log.js";

/**
 * Reads the config of a running process again, and applies what can change while it runs: the log's level. The files of
 * TLS are looked at, too.
 */
export class Reload {
  #config: ServiceConfig;

  constructor(
    config: ServiceConfig,
    private readonly load: () => LoadedConfig<ServiceConfig>,
    private readonly log: ServiceLogger,
  ) {
    this.#config = config;
  }

  /** A config that is wrong changes nothing. What needs a restart is named. */
  run(): void {
    WatchedFiles.lookAtAll();
    let config: ServiceConfig;
    let warnings: readonly string[];
    try {
      ({ config, warnings } = this.load());
    } catch (error) {
      this.log.error({ error: messageOf(error) }, "the config is not reloaded: it is wrong, and all stays as it was");
      return;
    }
    for (const warning of warnings) this.log.warn({}, warning);
    const { level } = config.log;
    this.log.setLevel(level);
    this.#config = { ...this.#config, log: { ...this.#config.log, level } };
    const needRestart = changedKeys(this.#config, config);
    const rest = needRestart.length === 0 ? "" : `; a restart is needed for ${needRestart.join(", ")}`;
    this.log.warn({ level, needRestart }, `the config is reloaded: the log's level is ${level}${rest}`);
  }
}

/** Names alone: values may be secrets. */
function changedKeys(before: unknown, after: unknown, path = ""): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isMapping(before) || !isMapping(after)) return [path];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.flatMap((name) => changedKeys(before[name], after[name], path === "" ? name : `${path}.${name}`));
}
