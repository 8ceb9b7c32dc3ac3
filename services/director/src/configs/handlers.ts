import type {
  Config as ConfigMessage,
  DeleteConfigRequest,
  DeleteConfigResponse,
  GetConfigRequest,
  GetConfigResponse,
  ListConfigsRequest,
  ListConfigsResponse,
} from "@diskmesh/api/director";
import { type CallContext, pageOfItems } from "@diskmesh/rpc";
import type { Config } from "../store/config.js";
import { configIdentity, configKey, type DirectorTables, nextNumber } from "../store/schema.js";
import type { ConfigContext } from "./context.js";
import { CPI } from "./cpi-configs.js";
import { latestConfigs } from "./latest-configs.js";
import { knownConfig, parseConfigName, parseConfigType } from "./parse-config.js";
import { changedMeanwhile, configsOf, noteConfig, readConfig } from "./update-config.js";
import { encodeConfig } from "./wire.js";

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
    if (left(tx)?.configId !== seen?.configId) throw changedMeanwhile();
    if (read !== undefined) read.check(tx);
    else configsOf(context, type)?.check(tx, name, undefined);
    const versions = configId === undefined ? [...tx.configs.by("byIdentity", configIdentity(config))] : [config];
    for (const version of versions) tx.configs.delete(configKey(version.configId));
    if (seen !== undefined) read?.keep(seen);
    // Merged configs are cached by the value of this counter, so a change of any config must increment the counter.
    nextNumber(tx, "config");
    noteConfig(context, tx, call, "delete", { type, name });
  });
  return {};
}

/** Returns the version that becomes the latest after the given version is deleted. */
function latestBut(tables: DirectorTables, config: Config): Config | undefined {
  const versions = [...tables.configs.by("byIdentity", configIdentity(config))];
  return versions.filter(({ configId }) => configId !== config.configId).at(-1);
}

export async function getConfig(context: ConfigContext, request: GetConfigRequest): Promise<GetConfigResponse> {
  const type = parseConfigType(request.type);
  const name = parseConfigName(request.name);
  const config = await context.tablet.read((tables) => knownConfig(tables, type, name, request.configId));
  return { config: encodeConfig(config) };
}

export async function listConfigs(context: ConfigContext, request: ListConfigsRequest): Promise<ListConfigsResponse> {
  const { items, nextPageToken } = pageOfItems(request, await wantedConfigs(context, request), {
    what: "configs",
    keyOf: (config) => `${configIdentity(config)} ${configKey(Number.MAX_SAFE_INTEGER - config.configId)}`,
  });
  return { configs: items.map((config) => encodeConfig(withoutSecrets(config))), nextPageToken };
}

/** Returns the versions that a list has, without CPIs' secrets. */
export async function shownConfigs(context: ConfigContext, filters: ConfigFilters): Promise<ConfigMessage[]> {
  return (await wantedConfigs(context, filters)).map((config) => encodeConfig(withoutSecrets(config)));
}

const withoutSecrets = (config: Config): Config => (config.type === CPI ? { ...config, content: "" } : config);

type ConfigFilters = Pick<ListConfigsRequest, "type" | "name" | "allVersions">;

async function wantedConfigs(context: ConfigContext, request: ConfigFilters): Promise<Config[]> {
  const type = request.type === "" ? "" : parseConfigType(request.type);
  const name = request.name === undefined ? undefined : parseConfigName(request.name);
  return context.tablet.read((tables) => {
    const latest = latestConfigs(tables, type).filter((config) => name === undefined || config.name === name);
    if (request.allVersions !== true) return latest;
    return latest.flatMap((config) => [...tables.configs.by("byIdentity", configIdentity(config))].reverse());
  });
}
