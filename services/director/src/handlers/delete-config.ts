import type { DeleteConfigRequest, DeleteConfigResponse } from "@diskmesh/api/director";
import { AbortedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ConfigContext } from "../context.js";
import type { Config } from "../model/config.js";
import { configIdentity, configKey, type DirectorTables, nextNumber } from "../model/schema.js";
import { knownConfig, parseConfigName, parseConfigType } from "./parse-config.js";
import { configsOf, noteConfig, readConfig } from "./update-config.js";

export async function deleteConfig(
  context: ConfigContext,
  request: DeleteConfigRequest,
  call: CallContext,
): Promise<DeleteConfigResponse> {
  const type = parseConfigType(request.type);
  const name = parseConfigName(request.name);
  const { configId } = request;
  const left = (tables: DirectorTables): Config | undefined =>
    configId === undefined ? undefined : latestBut(tables, knownConfig(tables, type, name, configId));
  const seen = await context.tablet.read(left);
  const read = seen && (await readConfig(context, type, name, seen.content, call.signal));
  await context.tablet.transact((tx) => {
    const config = knownConfig(tx, type, name, configId);
    if (left(tx)?.configId !== seen?.configId)
      throw new AbortedError("the config was changed at the same moment: start over");
    if (read !== undefined) read.check(tx);
    else configsOf(context, type)?.check(tx, name, undefined);
    const versions = configId === undefined ? [...tx.configs.by("byIdentity", configIdentity(config))] : [config];
    for (const version of versions) tx.configs.delete(configKey(version.configId));
    if (seen !== undefined) read?.keep(seen);
    // What was read from the configs is remembered by this number.
    nextNumber(tx, "config");
    noteConfig(context, tx, call, "delete", { type, name });
  });
  return {};
}

/** What holds once that version is gone. */
function latestBut(tables: DirectorTables, config: Config): Config | undefined {
  const versions = [...tables.configs.by("byIdentity", configIdentity(config))];
  return versions.filter(({ configId }) => configId !== config.configId).at(-1);
}
