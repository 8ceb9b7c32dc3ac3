import type { DeployRequest, DeployResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { checkManifest } from "../model/manifest-check.js";
import { refuseOtherTeams } from "../model/recorded-deployments.js";
import { encodeTask } from "../wire.js";
import { parseUpdateOptions } from "./parse.js";
import { startTask } from "./start-task.js";

/** For the members of some teams, or, with none of them named, for an administrator. */
export async function deploy(
  context: Context,
  request: DeployRequest,
  call: CallContext,
  teams: readonly string[] = [],
): Promise<DeployResponse> {
  const manifest = await context.manifests.accept(request.manifest, call.signal);
  const { name } = manifest;
  const options = { ...parseUpdateOptions(request.options), recreate: request.recreate };
  const ofTeams = teams.length === 0 ? {} : { teams };
  const task = await startTask(context, call, request.wait, {
    job: { type: "update_deployment", deployment: name, manifest: request.manifest, options, ...ofTeams },
    queue: "normal",
    description: `create deployment \`${name}\`${options.dryRun ? " (dry run)" : ""}`,
    deployment: () => name,
    // Checked again when it runs: cloud configs may change until then.
    check: (tables) => {
      refuseOtherTeams(tables, name, teams);
      checkManifest(context, tables, manifest);
    },
  });
  return { task: encodeTask(task) };
}
