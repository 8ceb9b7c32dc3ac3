import type { DeploymentServiceService } from "@diskmesh/api/director";
import { NotFoundError, parseName } from "@diskmesh/domain";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { instancesOf } from "../jobs/deployment-steps.js";
import { encodeInstance } from "../wire.js";

export function listInstances(context: Context): Handler<(typeof DeploymentServiceService)["listInstances"]> {
  return async (request) => {
    const deployment = parseName("deployment", request.deployment);
    const instances = await context.tablet.read((tables) => {
      if (!tables.deployments.has(deployment)) {
        throw new NotFoundError(`deployment \`${deployment}\` not found`, { about: { deployment } });
      }
      return instancesOf(tables, deployment);
    });
    return { instances: instances.map(encodeInstance) };
  };
}
