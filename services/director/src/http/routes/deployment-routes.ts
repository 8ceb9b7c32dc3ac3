import type { Deployment } from "@diskmesh/api/director";
import {
  AbortedError,
  InvalidArgumentError,
  isJsonObject,
  NotFoundError,
  parseJson,
  parseName,
} from "@diskmesh/domain";
import { teamsOfLogin } from "../../config/policy.js";
import { cloudConfigIds } from "../../deployments/deployment-steps.js";
import { deployBy, deploymentTasks, listDeployments } from "../../deployments/handlers.js";
import { instancesOf, requireDeployment } from "../../instances/recorded-deployments.js";
import { parseStemcell } from "../../specs/stemcell.js";
import { configKey } from "../../store/schema.js";
import { CODES } from "../../tasks/bosh-codes.js";
import { json, jsonList } from "../answer.js";
import { bodyText } from "../body.js";
import { YAML_TYPES } from "../content-type.js";
import type { Context } from "../context.js";
import { BadRequestError } from "../http-error.js";
import { pagesOf } from "../pages.js";
import type { HttpCall, Route } from "../route.js";
import { diffOfTexts } from "./config-diff.js";
import { startTask } from "./start-task.js";
import { refuseOptions, updateOptionsOf } from "./update-options.js";

/**
 * Deploy options that this director does not support. They are refused, because clients would otherwise believe that
 * the options took effect.
 */
const UNKNOWN_OPTIONS = ["recreate_persistent_disks", "recreate_vms_created_before"];

export const deploymentRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/deployments",
    operation: "listDeployments",
    teams: "own",
    serve: async ({ context, call }) => {
      const pages = pagesOf(
        (page) => listDeployments(context, page, call),
        ({ deployments }) => deployments,
      );
      return jsonList(shown(context, pages));
    },
  },
  {
    method: "POST",
    path: "/deployments",
    accepts: YAML_TYPES,
    operation: "deploy",
    teams: "own",
    serve: async (http) => {
      refuseOptions(http, UNKNOWN_OPTIONS);
      await refuseOldContext(http);
      // `fix` is ignored, because a deploy always recreates VMs whose agents do not answer.
      const recreate = http.query.get("recreate") === "true";
      return withManifest(() => {
        const wanted = { manifest: bodyText(http.request), options: updateOptionsOf(http), recreate };
        const teams = http.may("deploy", []) ? [] : teamsOfLogin(http.login.scopes, "admin");
        return startTask(http, deployBy(teams), wanted);
      });
    },
  },
  {
    method: "POST",
    path: "/deployments/:deployment/diff",
    accepts: YAML_TYPES,
    operation: "diffDeployment",
    teams: "own",
    serve: async (http) => {
      const context = { cloud_config_ids: await http.context.tablet.read(cloudConfigIds), runtime_config_ids: [] };
      try {
        return json({ context, diff: await manifestDiff(http) });
      } catch (error) {
        // BOSH answers 200 here. The deploy that follows fails with the same error.
        if (error instanceof InvalidArgumentError) return json({ context, diff: [], error: error.message });
        throw error;
      }
    },
  },
  {
    method: "GET",
    path: "/deployments/:deployment",
    operation: "listDeployments",
    serve: async (http) => json({ manifest: await manifestOf(http) }),
  },
  {
    method: "DELETE",
    path: "/deployments/:deployment",
    operation: "deleteDeployment",
    serve: async (http) => {
      refuseOptions(http, ["keep_snapshots"]);
      const force = http.query.get("force") === "true";
      return startTask(http, deploymentTasks.deleteDeployment, { deployment: http.param("deployment"), force });
    },
  },
  {
    method: "GET",
    path: "/deployment_configs",
    operation: "listDeployments",
    teams: "own",
    serve: async ({ context, query, may }) => {
      const asked = query.getAll("deployment[]");
      return json(
        await context.tablet.read((tables) => {
          return asked
            .flatMap((name) => tables.deployments.get(name) ?? [])
            .filter(({ teams }) => may("listDeployments", teams ?? []))
            .flatMap(({ name: deployment, cloudConfigIds }) =>
              cloudConfigIds
                // A config version is missing when too many later versions have replaced it.
                .flatMap((id) => tables.configs.get(configKey(id)) ?? [])
                .map(({ configId: id, type, name }) => ({ id, deployment, config: { id, type, name } })),
            );
        }),
      );
    },
  },
];

async function* shown(
  context: Context,
  pages: AsyncGenerator<readonly Deployment[]>,
): AsyncGenerator<readonly object[]> {
  for await (const deployments of pages) {
    const locks = context.locks.list().filter(({ type }) => type === "deployment");
    const locked = new Set(locks.map(({ resource }) => resource));
    yield await context.tablet.read((tables) => {
      const latest = cloudConfigIds(tables);
      return deployments.map(({ name, teams }) => ({
        name,
        teams,
        cloud_config: cloudConfigState(tables.deployments.get(name)?.cloudConfigIds ?? [], latest),
        releases: [],
        stemcells: stemcellsOf(instancesOf(tables, name)),
        locked: locked.has(name),
      }));
    });
  }
}

/** Returns the state of the deployment's cloud configs. */
function cloudConfigState(used: readonly number[], latest: readonly number[]): string {
  if (used.length === 0) return "none";
  return sameIds(used, latest) ? "latest" : "outdated";
}

function sameIds(some: readonly unknown[], others: readonly unknown[]): boolean {
  return some.map(String).sort().join() === others.map(String).sort().join();
}

function stemcellsOf(instances: readonly { readonly stemcell: string }[]): object[] {
  const names = new Set(instances.map(({ stemcell }) => stemcell).filter(Boolean));
  return [...names].sort().map(parseStemcell);
}

async function manifestOf(http: HttpCall): Promise<string> {
  const name = parseName("deployment", http.param("deployment"));
  return http.context.tablet.read((tables) => {
    requireDeployment(tables, name);
    return tables.deployments.get(name)?.manifest ?? "";
  });
}

async function manifestDiff(http: HttpCall): ReturnType<typeof diffOfTexts> {
  const { context, call, request, query } = http;
  const text = bodyText(request);
  await context.configs.manifests.accept(text, call.signal);
  const from = await manifestOf(http).catch((error: unknown) => {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  });
  const redact = query.get("redact") !== "false";
  return diffOfTexts(http, { from, text, redact });
}

/** Throws when the client's diff was made against other config versions. */
async function refuseOldContext({ context, query }: HttpCall): Promise<void> {
  const text = query.get("context") ?? "";
  if (text === "") return;
  const seen = parseJson("the context", text);
  const ids = isJsonObject(seen) ? seen.cloud_config_ids : undefined;
  if (!Array.isArray(ids)) return;
  const now = await context.tablet.read(cloudConfigIds);
  if (sameIds(ids, now)) return;
  throw new AbortedError("the cloud configs have changed since the diff was made: run deploy again", {
    reason: "CONFIG_CHANGED",
  });
}

async function withManifest<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof InvalidArgumentError ? new BadRequestError(error.message, CODES.badManifest) : error;
  }
}
