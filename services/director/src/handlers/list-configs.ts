import type { ConfigServiceService } from "@diskmesh/api/director";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeConfig } from "../wire.js";
import { latestConfigs } from "../yaml/cloud-configs.js";
import { parseConfigType } from "./parse-config.js";

export function listConfigs(context: Context): Handler<(typeof ConfigServiceService)["listConfigs"]> {
  return async (request) => {
    const type = request.type === "" ? "" : parseConfigType(request.type);
    const configs = await context.tablet.read((tables) => latestConfigs(tables, type));
    return { configs: configs.map(encodeConfig) };
  };
}
