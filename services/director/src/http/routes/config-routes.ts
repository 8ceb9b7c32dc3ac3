import type { Config } from "@diskmesh/api/director";
import { InvalidArgumentError, NotFoundError, NotImplementedError, REDACTED } from "@diskmesh/domain";
import { CLOUD } from "../../configs/cloud-configs.js";
import { CPI } from "../../configs/cpi-configs.js";
import { deleteConfig, getConfig, shownConfigs } from "../../configs/handlers.js";
import { NOT_HEEDED } from "../../configs/parse-config.js";
import { updateConfig } from "../../configs/update-config.js";
import { CODES } from "../../tasks/bosh-codes.js";
import { type Answer, empty, json, jsonList } from "../answer.js";
import { bodyObject, bodyText } from "../body.js";
import { YAML_TYPES } from "../content-type.js";
import { BadRequestError } from "../http-error.js";
import { limitOf, partsOf } from "../pages.js";
import type { HttpCall, Route } from "../route.js";
import { timeText } from "../times.js";
import { configIdOf, configOfId, diffOfTwo, diffWithLatest } from "./config-diff.js";

export const configRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/configs/diff",
    operation: "diffConfig",
    serve: async (http) => {
      const fields = bodyObject(http.request);
      if (fields.has("from")) return json(await diffOfTwo(http, fields.inner("from"), fields.inner("to")));
      const type = refuseNotHeeded(fields.text("type"));
      const wanted = { type, name: fields.text("name"), content: fields.text("content") };
      const { from, diff } = await diffWithLatest(http, wanted);
      return json({ from: { id: String(from) }, diff });
    },
  },
  {
    method: "POST",
    path: "/configs",
    operation: "updateConfig",
    serve: async (http) => {
      const fields = bodyObject(http.request);
      const wanted = {
        type: refuseNotHeeded(fields.text("type")),
        name: fields.text("name"),
        content: fields.text("content"),
      };
      const expected = fields.optionalText("expected_latest_id");
      return json(
        configObject(await updated(http, wanted, expected === undefined ? undefined : configIdOf(expected)), true),
        201,
      );
    },
  },
  {
    method: "GET",
    path: "/configs",
    operation: "listConfigs",
    teams: "own",
    // Configs belong to no team, so members of teams see none.
    serve: async (http) => (http.may("listConfigs", []) ? listed(http) : json([])),
  },
  {
    method: "GET",
    path: "/configs/:id",
    operation: "listConfigs",
    serve: async (http) => {
      const { type, name, configId } = await configOfId(http, configIdOf(http.param("id")));
      const { config } = await getConfig(http.context, { type, name, configId });
      const { config: latest } = await getConfig(http.context, { type, name, configId: undefined });
      if (config === undefined) throw new TypeError("a config that was found is missing");
      return json(shown(http, configObject(config, latest?.configId === configId)));
    },
  },
  {
    method: "DELETE",
    path: "/configs/:id",
    operation: "deleteConfig",
    serve: async (http) => {
      const { type, name, configId } = await configOfId(http, configIdOf(http.param("id")));
      await deleteConfig(http.context, { type, name, configId }, http.call);
      return empty(204);
    },
  },
  {
    method: "DELETE",
    path: "/configs",
    operation: "deleteConfig",
    serve: async ({ context, call, query }) => {
      const wanted = { type: query.get("type") ?? "", name: query.get("name") ?? "" };
      await deleteConfig(context, { ...wanted, configId: undefined }, call);
      return empty(204);
    },
  },
  ...legacyRoutes("/cloud_configs", CLOUD),
  ...legacyRoutes("/cpi_configs", CPI),
  { method: "GET", path: "/runtime_configs", operation: "listConfigs", serve: async () => json([]) },
  ...(["/runtime_configs", "/runtime_configs/diff"] as const).map(
    (path): Route => ({
      method: "POST",
      path,
      accepts: YAML_TYPES,
      operation: "updateConfig",
      serve: async () => json(refuseNotHeeded("runtime")),
    }),
  ),
];

/** Returns the routes for clients older than generic configs. */
function legacyRoutes(path: string, type: string): Route[] {
  const nameOf = ({ query }: HttpCall): string => query.get("name") ?? "";
  return [
    {
      method: "POST",
      path: `${path}/diff`,
      accepts: YAML_TYPES,
      operation: "diffConfig",
      serve: async (http) => {
        const content = bodyText(http.request);
        const { diff } = await diffWithLatest(http, { type, name: nameOf(http), content });
        return json({ diff });
      },
    },
    {
      method: "POST",
      path,
      accepts: YAML_TYPES,
      operation: "updateConfig",
      serve: async (http) => {
        await updated(http, { type, name: nameOf(http), content: bodyText(http.request) }, undefined);
        return empty(201);
      },
    },
    {
      method: "GET",
      path,
      operation: type === CPI ? "readCpiConfigs" : "listConfigs",
      serve: async ({ context, query }) => {
        const name = query.get("name") ?? "";
        const config = await getConfig(context, { type, name, configId: undefined }).catch((error: unknown) => {
          if (error instanceof NotFoundError) return { config: undefined };
          throw error;
        });
        const found = config.config === undefined ? [] : [config.config];
        return json(
          found.map(({ content, createTime }) => ({ properties: content, created_at: timeText(createTime) })),
        );
      },
    },
  ];
}

async function updated(
  { context, call }: HttpCall,
  wanted: { readonly type: string; readonly name: string; readonly content: string },
  expectedLatestId: number | undefined,
): Promise<Config> {
  try {
    const { config } = await updateConfig(context, { ...wanted, expectedLatestId }, call);
    if (config === undefined) throw new TypeError("a config that was made is missing");
    return config;
  } catch (error) {
    throw error instanceof InvalidArgumentError ? new BadRequestError(error.message, CODES.badConfig) : error;
  }
}

async function listed(http: HttpCall): Promise<Answer> {
  const { context, query } = http;
  const type = query.get("type") ?? "";
  // A type that this director rejects has no configs. The list must not contain configs of other types, because clients
  // treat every listed config as being of the requested type.
  if (NOT_HEEDED.includes(type)) return json([]);
  const limit = query.get("latest") === "true" ? 1 : limitOf(query.get("limit"));
  const name = query.get("name") ?? undefined;
  const configs = await shownConfigs(context, { type, name, allVersions: limit > 1 });
  const counts = new Map<string, number>();
  const wanted = configs.flatMap((config) => {
    const key = `${config.type} ${config.name}`;
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    return count > limit ? [] : [{ config, isCurrent: count === 1 }];
  });
  return jsonList(
    partsOf(wanted, async ({ config, isCurrent }) => shown(http, configObject(await whole(http, config), isCurrent))),
  );
}

/** Returns the config with its secrets if the login may read them; lists omit secrets. */
async function whole({ context, may }: HttpCall, config: Config): Promise<Config> {
  if (config.type !== CPI || !may("readCpiConfigs")) return config;
  const { type, name, configId } = config;
  return (await getConfig(context, { type, name, configId })).config ?? config;
}

type ConfigObject = ReturnType<typeof configObject>;

function configObject({ content, configId, type, name, createTime }: Config, current: boolean) {
  return { content, id: String(configId), type, name, team: null, created_at: timeText(createTime), current };
}

function shown(http: HttpCall, config: ConfigObject): ConfigObject {
  return config.type === CPI && !http.may("readCpiConfigs") ? { ...config, content: REDACTED } : config;
}

function refuseNotHeeded(type: string): string {
  if (!NOT_HEEDED.includes(type)) return type;
  throw new NotImplementedError(`this director does not support configs of type ${type}`);
}
