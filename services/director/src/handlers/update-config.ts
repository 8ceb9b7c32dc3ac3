import type { ConfigServiceService } from "@diskmesh/api/director";
import { AbortedError, ResourceExhaustedError } from "@diskmesh/domain";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import type { Config } from "../model/config.js";
import { configIdentity, configKey, type DirectorTables, type DirectorTransaction, nextNumber } from "../schema.js";
import { encodeConfig } from "../wire.js";
import { CPI } from "../yaml/cpi-configs.js";
import { latestConfigs } from "../yaml/latest-configs.js";
import { type ConfigType, latestConfig, parseConfigName, parseConfigType } from "./parse-config.js";

export function updateConfig(context: Context): Handler<(typeof ConfigServiceService)["updateConfig"]> {
  return async (request) => {
    const { content, expectedLatestId } = request;
    const type = parseConfigType(request.type);
    const name = parseConfigName(request.name);
    const config = await context.tablet.transact((tx) => {
      const latest = latestConfig(tx, type, name);
      refuseUnexpected(latest, expectedLatestId);
      if (latest?.content === content) return latest;
      checkConfig(context, tx, type, name, content);
      if (latest === undefined) refuseManyNames(tx, context.config.content.configNames);
      const config: Config = {
        configId: nextNumber(tx, "config"),
        type,
        name,
        content,
        createdAtMs: context.clock.nowMs(),
      };
      tx.configs.put(config);
      forgetOldVersions(tx, config, context.config.content.configVersions);
      return config;
    });
    return { config: encodeConfig(config) };
  };
}

/** Throws when the configs of that type are not valid with this content, or, for undefined, without the config. */
export function checkConfig(
  context: Context,
  tables: DirectorTables,
  type: ConfigType,
  name: string,
  content: string | undefined,
): void {
  const configs = type === CPI ? context.cpiConfigs : context.cloudConfigs;
  configs.check(tables, name, content);
}

function refuseUnexpected(latest: Config | undefined, expectedLatestId: number | undefined): void {
  const latestId = latest?.configId ?? 0;
  if (expectedLatestId === undefined || expectedLatestId === latestId) return;
  throw new AbortedError(
    `the latest version is ${latestId}, not ${expectedLatestId} (expected_latest_id): look at what was changed and start over`,
    { about: { latest_id: String(latestId), expected_latest_id: String(expectedLatestId) } },
  );
}

function refuseManyNames(tx: DirectorTransaction, limit: number): void {
  if (latestConfigs(tx).length < limit) return;
  throw new ResourceExhaustedError(`there are ${limit} configs already, which is the limit (content.configNames)`);
}

function forgetOldVersions(tx: DirectorTransaction, config: Config, keep: number): void {
  const versions = [...tx.configs.by("byIdentity", configIdentity(config))];
  for (const old of versions.slice(0, -keep)) tx.configs.delete(configKey(old.configId));
}
