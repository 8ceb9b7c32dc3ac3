import type { Instance } from "@diskmesh/api/director";
import { persistently, type Soak } from "../soak.js";
import { WORK_DEPLOYMENT } from "./deployment-names.js";

/** Returns the instances of the deployment that stays; each has its own host. */
export async function workInstances({ fleet }: Soak): Promise<Instance[]> {
  const list = () => fleet.clients.deployments.listInstances({ deployment: WORK_DEPLOYMENT });
  return (await persistently("ListInstances", list)).instances;
}
