import type { Deployment as WireDeployment } from "@diskmesh/api/director";
import type { Deployment } from "../store/deployment.js";

export function encodeDeployment({ name, manifest, teams = [] }: Deployment): WireDeployment {
  return { name, manifest, teams: [...teams] };
}
