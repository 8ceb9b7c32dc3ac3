import type { GetFleetRequest, GetFleetResponse } from "@diskmesh/api/registry";
import type { Context } from "../../calls/context.js";
import { ownNumbers } from "../../model/disks/remembered.js";
import { otherFleetMessage, refusedNumbersMessage } from "../../requests/wire.js";

export async function getFleet({ tablet, fleet }: Context, _request: GetFleetRequest): Promise<GetFleetResponse> {
  const leader = fleet.leader();
  const known = await tablet.read((tables) => ({
    numbers: ownNumbers(tables, leader),
    others: [...tables.fleets.entries()].map(otherFleetMessage),
    unknownDiskDevices: [...tables.hosts.entries()].reduce(
      (sum, { hostId }) => sum + tables.devices.count("unknownByHost", hostId),
      0,
    ),
  }));
  return {
    tabletId: leader.tabletId,
    incarnation: leader.incarnation,
    parentIncarnations: [...tablet.parentIncarnations],
    ...known.numbers,
    standsStill: fleet.standsStill ?? "",
    others: known.others,
    refused: [...fleet.refused].map(refusedNumbersMessage),
    unknownDiskDevices: known.unknownDiskDevices,
  };
}
