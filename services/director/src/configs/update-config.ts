import type { UpdateConfigRequest, UpdateConfigResponse } from "@diskmesh/api/director";
import { AbortedError, ResourceExhaustedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { askerOf } from "../audit/asker.js";
import type { CloudConfig } from "../specs/cloud-config.js";
import type { CpiNames } from "../specs/cpi-choice.js";
import type { Config } from "../store/config.js";
import {
  configIdentity,
  configKey,
  type DirectorTables,
  type DirectorTransaction,
  nextNumber,
} from "../store/schema.js";
import { CLOUD } from "./cloud-configs.js";
import type { Configs } from "./configs.js";
import type { ConfigContext } from "./context.js";
import { CPI } from "./cpi-configs.js";
import { azsMissing, cpisMissing } from "./in-use.js";
import { latestConfigs } from "./latest-configs.js";
import { latestConfig, parseConfigName, parseConfigType } from "./parse-config.js";
import { MAX_CONFIG_BYTES } from "./readers-of-texts.js";
import { RESURRECTION } from "./resurrection-configs.js";
import { encodeConfig } from "./wire.js";

/** Maximum number of distinct configs, by type and name. A director parses every config when it starts to lead. */
const MAX_CONFIG_NAMES = 20;
/** Maximum number of stored versions of each config. */
const MAX_CONFIG_VERSIONS = 10;

export async function updateConfig(
  context: ConfigContext,
  request: UpdateConfigRequest,
  call: CallContext,
): Promise<UpdateConfigResponse> {
  const { content, expectedLatestId } = request;
  const type = parseConfigType(request.type);
  const name = parseConfigName(request.name);
  // Unchanged content is accepted even if it would be rejected as new content.
  const isThere = (tables: DirectorTables): boolean => latestConfig(tables, type, name)?.content === content;
  const unchanged = await context.tablet.read(isThere);
  const read = unchanged ? undefined : await readConfig(context, type, name, content, call.signal);
  const { config, warnings } = await context.tablet.transact((tx) => {
    const latest = latestConfig(tx, type, name);
    refuseUnexpected(latest, expectedLatestId);
    if (latest?.content === content) return { config: latest, warnings: [] };
    if (read === undefined) throw changedMeanwhile();
    const warnings = read.check(tx);
    if (latest === undefined) refuseManyNames(tx, MAX_CONFIG_NAMES);
    const config: Config = {
      configId: nextNumber(tx, "config"),
      type,
      name,
      content,
      createdAtMs: context.clock.nowMs(),
    };
    tx.configs.put(config);
    read.keep(config);
    forgetOldVersions(tx, config, MAX_CONFIG_VERSIONS);
    noteConfig(context, tx, call, latest === undefined ? "create" : "update", config);
    return { config, warnings };
  });
  return { config: encodeConfig(config), warnings: [...warnings] };
}

export function changedMeanwhile(): AbortedError {
  return new AbortedError(
    "another request changed the config at the same time: read the config again, then repeat the change",
    { reason: "CONFIG_CHANGED" },
  );
}

/** Records the change of a config as an event. */
export function noteConfig(
  { events }: ConfigContext,
  tx: DirectorTransaction,
  call: CallContext,
  action: string,
  { type, name }: Pick<Config, "type" | "name">,
): void {
  events.note(tx, { action, objectType: `config/${type}`, objectName: name }, askerOf(call));
}

/** A new config that was parsed. */
interface ReadConfig {
  /**
   * Returns a warning for each object in use that the merged configs lack. Throws when the config conflicts with the
   * others of its type.
   */
  readonly check: (tables: DirectorTables) => readonly string[];
  /** Stores the parsed config. Call in the transaction that records the config. */
  readonly keep: (config: Config) => void;
}

/** Parses a config from a request. Throws InvalidArgumentError for content that is not accepted. */
export async function readConfig(
  context: ConfigContext,
  type: string,
  name: string,
  content: string,
  signal: AbortSignal,
): Promise<ReadConfig> {
  const configs = configsOf(context, type);
  if (configs === undefined) {
    await checkPlain(context, `${type} config \`${name}\``, content, signal);
    return { check: () => [], keep: () => {} };
  }
  const part = await configs.read(name, content, signal);
  return {
    check: (tables) => missingIn(tables, type, configs.check(tables, name, part)),
    keep: (config) => configs.keep(config, part),
  };
}

function missingIn(tables: DirectorTables, type: string, merged: unknown): readonly string[] {
  if (type === CLOUD) return azsMissing(tables, merged as CloudConfig);
  return type === CPI ? cpisMissing(tables, merged as CpiNames) : [];
}

/** Returns the configs of a type that the director applies; undefined for other types, which are stored as text. */
export function configsOf(
  context: ConfigContext,
  type: string,
): Pick<Configs<unknown, unknown>, "read" | "check" | "keep"> | undefined {
  if (type === CPI) return context.configs.cpi;
  if (type === CLOUD) return context.configs.cloud;
  if (type === RESURRECTION) return context.configs.resurrection;
  return undefined;
}

/** Throws InvalidArgumentError for a text that is not a YAML mapping or is too large. */
export async function checkPlain(
  { configs }: Pick<ConfigContext, "configs">,
  what: string,
  text: string,
  signal: AbortSignal,
): Promise<void> {
  const limits = { what, sizeBytes: MAX_CONFIG_BYTES, holdsSecrets: true };
  await configs.reader.read({ format: "plain_config", text, limits }, { signal });
}

function refuseUnexpected(latest: Config | undefined, expectedLatestId: number | undefined): void {
  const latestId = latest?.configId ?? 0;
  if (expectedLatestId === undefined || expectedLatestId === latestId) return;
  throw new AbortedError(
    `the latest version is ${latestId}, not ${expectedLatestId} (expected_latest_id): read the latest version, then repeat the change`,
    { reason: "CONFIG_CHANGED", about: { latest_id: String(latestId), expected_latest_id: String(expectedLatestId) } },
  );
}

function refuseManyNames(tx: DirectorTransaction, limit: number): void {
  if (latestConfigs(tx).length < limit) return;
  throw new ResourceExhaustedError(`there are already ${limit} configs, the limit: delete a config first`);
}

function forgetOldVersions(tx: DirectorTransaction, config: Config, keep: number): void {
  const versions = [...tx.configs.by("byIdentity", configIdentity(config))];
  for (const old of versions.slice(0, -keep)) tx.configs.delete(configKey(old.configId));
}
