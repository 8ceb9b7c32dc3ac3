import type { DynamicDisk, Instance, PossibleOrphan } from "@diskmesh/api/director";
import { allPages } from "@diskmesh/rpc";
import type { FileFleet } from "./file-fleet.js";

/** Returns the differences between the callers' answers, the records, the infrastructure and the agents. */
export async function violationsOf(fleet: FileFleet, wanted: ReadonlyMap<string, boolean>): Promise<string[]> {
  const { deployments, disks } = fleet.mesh.clients;
  const names = (await deployments.listDeployments({})).deployments.map(({ name }) => name);
  const listed = await Promise.all(
    names.map((deployment) => deployments.listInstances({ deployment, pageSize: 1_000 })),
  );
  const instances = listed.flatMap((page) => page.instances);
  const recorded = await allPages(async (pageToken) => {
    const page = await disks.listDynamicDisks({ pageToken });
    return { items: page.disks, nextPageToken: page.nextPageToken };
  });
  const orphans = await allPages(async (pageToken) => {
    const page = await deployments.listPossibleOrphans({ pageToken });
    return { items: page.possibleOrphans, nextPageToken: page.nextPageToken };
  });
  return [
    ...fleet.cloud.violations(),
    ...ofVms(fleet, instances, orphans),
    ...ofDisks(fleet, recorded, orphans),
    ...ofWishes(recorded, wanted),
    ...ofLinks(fleet, instances, recorded),
  ];
}

function ofVms({ cloud }: FileFleet, instances: readonly Instance[], orphans: readonly PossibleOrphan[]): string[] {
  const vms = cloud.vms();
  const known = new Set(instances.map(({ vmCid }) => vmCid));
  const tokens = new Set(orphans.map(({ token }) => token));
  const lost = instances.filter(({ vmCid }) => !vms.has(vmCid));
  const unknown = [...vms].filter(([vmCid, agentId]) => !known.has(vmCid) && !tokens.has(agentId));
  return [
    ...lost.map(({ instanceId, vmCid }) => `instance ${instanceId} has VM "${vmCid}", which is not there`),
    ...unknown.map(([vmCid]) => `VM ${vmCid} is nobody's, and no possible orphan`),
  ];
}

/** Requires that a disk that the CPI created twice is listed as a possible orphan. */
function ofDisks({ cloud }: FileFleet, recorded: readonly DynamicDisk[], orphans: readonly PossibleOrphan[]) {
  const [there, attached] = [cloud.disks(), cloud.attached()];
  const violations: string[] = [];
  const known = new Set(recorded.map(({ diskCid }) => diskCid));
  for (const { diskName, diskCid, vmCid } of recorded) {
    if (!there.has(diskCid)) violations.push(`disk ${diskName} is ${diskCid}, which is not there`);
    const on = attached.get(diskCid) ?? "";
    if (on !== vmCid) violations.push(`disk ${diskName} is attached to "${on}", and is recorded at "${vmCid}"`);
    const others = [...there].filter(([cid, made]) => !known.has(cid) && made.includes(`"name":"${diskName}"`));
    const listed = orphans.filter(({ madeFor }) => madeFor === `dynamic disk ${diskName}`);
    if (others.length > listed.length)
      violations.push(`${others.length} more disks were made for ${diskName}, and ${listed.length} are listed`);
  }
  for (const diskCid of attached.keys()) if (!known.has(diskCid)) violations.push(`${diskCid}, nobody's, is attached`);
  return violations;
}

function ofWishes(recorded: readonly DynamicDisk[], wanted: ReadonlyMap<string, boolean>): string[] {
  const byName = new Map(recorded.map((disk) => [disk.diskName, disk]));
  return [...wanted].flatMap(([name, attached]) => {
    const disk = byName.get(name);
    if (disk === undefined) return [`disk ${name} was provided, and nobody knows it`];
    if ((disk.vmCid !== "") === attached) return [];
    return [`disk ${name} was ${attached ? "provided" : "detached"}, and its VM is "${disk.vmCid}"`];
  });
}

function ofLinks(fleet: FileFleet, instances: readonly Instance[], recorded: readonly DynamicDisk[]): string[] {
  return instances.flatMap(({ vmCid, agentId }) => {
    const agent = fleet.agents.get(agentId);
    if (agent === undefined) return [`VM ${vmCid} has no agent`];
    const expected = new Set(recorded.filter((disk) => disk.vmCid === vmCid).map(({ diskCid }) => diskCid));
    const links = [...agent.links.keys()];
    return [
      ...links.filter((cid) => !expected.has(cid)).map((cid) => `agent ${agentId} has a link for ${cid} still`),
      ...[...expected].filter((cid) => !agent.links.has(cid)).map((cid) => `agent ${agentId} has no link for ${cid}`),
    ];
  });
}
