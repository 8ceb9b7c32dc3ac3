import { OrphanKind, type PossibleOrphan } from "@diskmesh/api/director";
import { allPages } from "@diskmesh/rpc";
import type { Mesh } from "../mesh/mesh.js";
import { UsageError } from "../output/exit-codes.js";

export function possibleOrphans({ deployments }: Mesh): Promise<PossibleOrphan[]> {
  return allPages(async (pageToken) => {
    const page = await deployments.listPossibleOrphans({ pageToken });
    return { items: page.possibleOrphans, nextPageToken: page.nextPageToken };
  });
}

/** Returns the object's kind as in CPI methods. */
export function kindOfOrphan({ kind }: Pick<PossibleOrphan, "kind">): string {
  return (
    { [OrphanKind.VM]: "vm", [OrphanKind.DISK]: "disk", [OrphanKind.SNAPSHOT]: "snapshot" }[kind as string] ?? "object"
  );
}

/** Returns what an operator does about a possible orphan. */
export function cureOf(orphan: Pick<PossibleOrphan, "kind" | "cid" | "token">): string {
  const { cid, token } = orphan;
  if (cid !== "") return `diskmesh delete-orphan ${token}`;
  const where = orphan.kind === OrphanKind.VM ? `a vm with agent id ${token}` : `a ${kindOfOrphan(orphan)} made then`;
  return `look in the infrastructure for ${where}; once it is gone: diskmesh forget-orphan ${token}`;
}

/** Returns the possible orphan with the token. Throws UsageError when none has it. */
export async function orphanNamed(mesh: Mesh, token: string): Promise<PossibleOrphan> {
  const found = (await possibleOrphans(mesh)).find((orphan) => orphan.token === token);
  if (found !== undefined) return found;
  throw new UsageError(`there is no possible orphan with the token ${token}: \`diskmesh orphans\` lists them`);
}
