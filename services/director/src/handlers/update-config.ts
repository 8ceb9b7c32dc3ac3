import type { ConfigServiceService } from "@diskmesh/api/director";
import { ResourceExhaustedError } from "@diskmesh/domain";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import type { Config } from "../model/config.js";
import { configIdentity, configKey, type DirectorTransaction, nextNumber } from "../schema.js";
import { encodeConfig } from "../wire.js";
import { latestConfigs } from "../yaml/cloud-configs.js";
import { parseConfigName, parseConfigType } from "./parse-config.js";

export function updateConfig(context: Context): Handler<(typeof ConfigServiceService)["updateConfig"]> {
  return async (request) => {
    const { content } = request;
    const type = parseConfigType(request.type);
    const name = parseConfigName(request.name);
    const config = await context.tablet.transact((tx) => {
      const latest = latestConfigs(tx, type).find((other) => other.name === name);
      if (latest?.content === content) return latest;
      context.cloudConfigs.check(tx, name, content);
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

function refuseManyNames(tx: DirectorTransaction, limit: number): void {
  if (latestConfigs(tx).length < limit) return;
  throw new ResourceExhaustedError(`there are ${limit} configs already, which is the limit (content.configNames)`);
}

function forgetOldVersions(tx: DirectorTransaction, config: Config, keep: number): void {
  const versions = [...tx.configs.by("byIdentity", configIdentity(config))];
  for (const old of versions.slice(0, -keep)) tx.configs.delete(configKey(old.configId));
}
