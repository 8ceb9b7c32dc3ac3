import type { Instance } from "@diskmesh/api/director";
import { NotFoundError, quoted } from "@diskmesh/domain";
import type { Mesh } from "../mesh/mesh.js";
import { UsageError } from "../output/exit-codes.js";

/** Returns the instance named DEPLOYMENT/GROUP/INDEX-or-ID. */
export async function getInstance({ deployments }: Mesh, name: string): Promise<Instance> {
  const [deployment = "", group, which, ...rest] = name.split("/");
  if (which === undefined || rest.length > 0)
    throw new UsageError(`${quoted(name)} is not DEPLOYMENT/GROUP/INDEX-or-ID`);
  const { instances } = await deployments.listInstances({ deployment });
  const found = instances.find(
    (each) => each.group === group && (String(each.index) === which || each.instanceId === which),
  );
  if (found !== undefined) return found;
  const all = instances.map((each) => `${deployment}/${each.group}/${each.index}`);
  throw new NotFoundError(`there is no instance ${name}: there are ${all.join(", ")}`);
}
