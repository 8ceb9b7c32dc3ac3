import type { Instance } from "@diskmesh/api/director";
import { NotFoundError, quoted } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import type { Mesh } from "../mesh/mesh.js";
import { UsageError } from "../output/exit-codes.js";

const PAGE_SIZE = 1_000;

/** Returns all instances of a deployment. */
export function instancesOf({ deployments }: Mesh, deployment: string): Promise<Instance[]> {
  return allPages(async (pageToken) => {
    const page = await deployments.listInstances({ deployment, pageToken, pageSize: PAGE_SIZE });
    return { items: page.instances, nextPageToken: page.nextPageToken };
  });
}

/** Returns the instance named DEPLOYMENT/GROUP/INDEX-or-ID. */
export async function getInstance(mesh: Mesh, name: string): Promise<Instance> {
  const [deployment = "", group, which, ...rest] = name.split("/");
  if (which === undefined || rest.length > 0)
    throw new UsageError(`${quoted(name)} is not DEPLOYMENT/GROUP/INDEX-or-ID`);
  const instances = await instancesOf(mesh, deployment);
  const found = instances.find(
    (each) => each.group === group && (String(each.index) === which || each.instanceId === which),
  );
  if (found !== undefined) return found;
  const all = instances.map((each) => `${deployment}/${each.group}/${each.index}`);
  throw new NotFoundError(`there is no instance ${name}: there are ${all.join(", ")}`);
}
