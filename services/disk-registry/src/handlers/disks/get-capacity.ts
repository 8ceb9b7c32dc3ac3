import type { GetCapacityRequest, GetCapacityResponse } from "@diskmesh/api/registry";
import { parseOptionalName } from "@diskmesh/domain";
import type { Context } from "../../calls/context.js";
import { capacityOf } from "../../model/disks/capacity.js";

export async function getCapacity(context: Context, request: GetCapacityRequest): Promise<GetCapacityResponse> {
  const { tablet, liveness, limits } = context;
  const filter = { az: parseOptionalName("az", request.az), pool: parseOptionalName("pool", request.pool) };
  const options = { whySuspected: liveness.whySuspected, maxDevices: limits.maxDevicesPerDisk };
  const pools = await tablet.read((tables) => capacityOf(tables, filter, options));
  return { pools: [...pools] };
}
