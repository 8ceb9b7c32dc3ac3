import type { DeleteConfigRequest, DeleteConfigResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { configIdentity, configKey, nextNumber } from "../model/schema.js";
import { CPI } from "../yaml/cpi-configs.js";
import { knownConfig, parseConfigName, parseConfigType } from "./parse-config.js";
import { noteConfig } from "./update-config.js";

export async function deleteConfig(
  context: Context,
  request: DeleteConfigRequest,
  call: CallContext,
): Promise<DeleteConfigResponse> {
  const type = parseConfigType(request.type);
  const name = parseConfigName(request.name);
  await context.tablet.transact((tx) => {
    const config = knownConfig(tx, type, name, undefined);
    const configs = type === CPI ? context.cpiConfigs : context.cloudConfigs;
    configs.check(tx, name, undefined);
    for (const version of tx.configs.by("byIdentity", configIdentity(config))) {
      tx.configs.delete(configKey(version.configId));
    }
    // What was read from the configs is remembered by this number.
    nextNumber(tx, "config");
  });
  noteConfig(context, call, "delete", { type, name });
  return {};
}
