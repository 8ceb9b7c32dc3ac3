import { ActionCode, type PurgeHostRequest, type PurgeHostResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { runAction } from "../../calls/run-action.js";
import * as model from "../../model/hosts/purge-action.js";

export async function purgeHost(context: ChangeContext, request: PurgeHostRequest): Promise<PurgeHostResponse> {
  const hostId = parseHostId(request.hostId);
  const { agents, fleet, lastRegistrations, liveness, tablet, workers } = context;
  const affected = await tablet.read((tables) => model.disksAffectedByPurge(tables, hostId));
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.purgeHost(tx, hostId, request.force),
    () => [],
  );
  if (!request.dryRun && result.code === ActionCode.S_OK) {
    agents.forget(hostId);
    fleet.forget(hostId);
    liveness.forget(hostId);
    context.ioMeter.forget(hostId);
    lastRegistrations.delete(hostId);
    context.unknownExports.delete(hostId);
    for (const diskId of affected) workers.wakeDisk(diskId);
  }
  return { result };
}
