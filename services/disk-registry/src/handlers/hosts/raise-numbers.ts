import type { RaiseNumbersRequest, RaiseNumbersResponse } from "@diskmesh/api/registry";
import { parseHostId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { ownNumbers } from "../../model/disks/remembered.js";
import { parseTrueNumber } from "../../requests/requests.js";

export async function raiseNumbers(
  { tablet, fleet, log, doing }: ChangeContext,
  request: RaiseNumbersRequest,
): Promise<RaiseNumbersResponse> {
  const hostId = parseHostId(request.hostId);
  log.warn({ hostId }, "RaiseNumbers requested by an operator");
  const seen = {
    tabletGeneration: parseTrueNumber("tablet_generation", request.tabletGeneration),
    deviceGeneration: parseTrueNumber("device_generation", request.deviceGeneration),
    sessionNumber: parseTrueNumber("session_number", request.sessionNumber),
  };
  doing.message = `what host ${hostId} remembers was truly given`;
  await fleet.raise(seen, doing);
  return tablet.read((tables) => ownNumbers(tables, fleet.leader()));
}
