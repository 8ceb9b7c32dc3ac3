import type { UnassignHostRequest, UnassignHostResponse } from "@diskmesh/api/registry";
import { parseId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { unassignHost as unassign } from "../../model/disks/host-assignment.js";

export async function unassignHost(
  { tablet }: ChangeContext,
  request: UnassignHostRequest,
): Promise<UnassignHostResponse> {
  const vmCid = parseId("vm_cid", request.vmCid);
  await tablet.transact((tx) => unassign(tx, vmCid));
  return {};
}
