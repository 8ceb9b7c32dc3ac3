import type { ConfigServiceService } from "@diskmesh/api/director";
import { NotFoundError } from "@diskmesh/domain";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeConfig } from "../wire.js";
import { latestConfigs } from "../yaml/cloud-configs.js";
import { parseConfigName, parseConfigType } from "./parse-config.js";

export function getConfig(context: Context): Handler<(typeof ConfigServiceService)["getConfig"]> {
  return async (request) => {
    const type = parseConfigType(request.type);
    const name = parseConfigName(request.name);
    const config = await context.tablet.read((tables) =>
      latestConfigs(tables, type).find((other) => other.name === name),
    );
    if (config === undefined)
      throw new NotFoundError(`there is no ${type} config \`${name}\``, { about: { type, name } });
    return { config: encodeConfig(config) };
  };
}
