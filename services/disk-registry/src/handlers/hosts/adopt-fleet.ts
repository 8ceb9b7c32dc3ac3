import type { AdoptFleetRequest, AdoptFleetResponse } from "@diskmesh/api/registry";
import { parseId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { parseTrueNumber } from "../../requests/requests.js";

export async function adoptFleet(
  { fleet, doing }: ChangeContext,
  request: AdoptFleetRequest,
): Promise<AdoptFleetResponse> {
  const tabletId = parseId("tablet_id", request.tabletId);
  const incarnation = request.incarnation === "" ? "" : parseId("incarnation", request.incarnation);
  const sessionNumber = parseTrueNumber("session_number", request.sessionNumber);
  doing.message = `tablet ${tabletId}, incarnation ${incarnation}`;
  await fleet.adopt({ tabletId, incarnation }, doing);
  await fleet.raise({ tabletGeneration: 0, deviceGeneration: 0, sessionNumber }, doing);
  return {};
}
