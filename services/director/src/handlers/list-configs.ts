import type { ListConfigsRequest, ListConfigsResponse } from "@diskmesh/api/director";
import type { ConfigContext } from "../context.js";
import { configIdentity } from "../model/schema.js";
import { encodeConfig } from "../wire.js";
import { CPI } from "../yaml/cpi-configs.js";
import { latestConfigs } from "../yaml/latest-configs.js";
import { parseConfigName, parseConfigType } from "./parse-config.js";

export async function listConfigs(context: ConfigContext, request: ListConfigsRequest): Promise<ListConfigsResponse> {
  const type = request.type === "" ? "" : parseConfigType(request.type);
  const name = request.name === undefined ? undefined : parseConfigName(request.name);
  const configs = await context.tablet.read((tables) => {
    const latest = latestConfigs(tables, type).filter((config) => name === undefined || config.name === name);
    if (request.allVersions !== true) return latest;
    return latest.flatMap((config) => [...tables.configs.by("byIdentity", configIdentity(config))].reverse());
  });
  return {
    configs: configs.map((config) => encodeConfig(config.type === CPI ? { ...config, content: "" } : config)),
  };
}
