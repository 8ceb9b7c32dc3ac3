import type { GetConfigRequest, GetConfigResponse } from "@diskmesh/api/director";
import type { ConfigContext } from "../context.js";
import { encodeConfig } from "../wire.js";
import { knownConfig, parseConfigName, parseConfigType } from "./parse-config.js";

export async function getConfig(context: ConfigContext, request: GetConfigRequest): Promise<GetConfigResponse> {
  const type = parseConfigType(request.type);
  const name = parseConfigName(request.name);
  const config = await context.tablet.read((tables) => knownConfig(tables, type, name, request.configId));
  return { config: encodeConfig(config) };
}
