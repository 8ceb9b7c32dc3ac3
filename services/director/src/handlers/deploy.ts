import type { DeployRequest, DeployResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { checkManifest } from "../model/manifest-check.js";
import { encodeTask } from "../wire.js";
import { parseUpdateOptions } from "./parse.js";
import { startTask } from "./start-task.js";

export async function deploy(context: Context, request: DeployRequest, call: CallContext): Promise<DeployResponse> {
  const manifest = await context.manifests.accept(request.manifest, call.signal);
  const { name } = manifest;
  const options = { ...parseUpdateOptions(request.options), recreate: request.recreate };
  const task = await startTask(context, call, request.wait, {
    job: { type: "update_deployment", deployment: name, manifest: request.manifest, options },
    queue: "normal",
    description: `create deployment \`${name}\``,
    deployment: () => name,
    // Checked again when it runs: cloud configs may change until then.
    check: (tables) => checkManifest(context, tables, manifest),
  });
  return { task: encodeTask(task) };
}
