import type { ConfigServiceService } from "@diskmesh/api/director";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeConfig } from "../wire.js";
import { knownConfig, parseConfigName, parseConfigType } from "./parse-config.js";

export function getConfig(context: Context): Handler<(typeof ConfigServiceService)["getConfig"]> {
  return async (request) => {
    const type = parseConfigType(request.type);
    const name = parseConfigName(request.name);
    const config = await context.tablet.read((tables) => knownConfig(tables, type, name, request.configId));
    return { config: encodeConfig(config) };
  };
}
