import type { GetDynamicDiskCapacityRequest, GetDynamicDiskCapacityResponse } from "@diskmesh/api/director";
import { DomainError, parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { CpiCallError } from "../../cpi/cpi-error.js";
import { azNamed, azOfHosts, diskTypeNamed } from "../../specs/cloud-config.js";
import { cpiOfAz } from "../../specs/cpi-choice.js";
import type { CapacityContext } from "../context.js";
import { parsePool, refuseUnlessEnabled } from "./parse.js";

/** Returns the space for new disks of a disk type, or for hosts of a pool, in an az, as the az's CPI reports it. Starts no task. */
export async function getDynamicDiskCapacity(
  context: CapacityContext,
  request: GetDynamicDiskCapacityRequest,
  call: CallContext,
): Promise<GetDynamicDiskCapacityResponse> {
  const azName = parseName("az", request.az);
  const isForHosts = request.pool !== "";
  const pool = parsePool(request, isForHosts);
  refuseUnlessEnabled(context);
  const { target, cloudProperties } = await context.tablet.read((tables) => {
    const config = context.configs.cloud.current(tables);
    const az = isForHosts ? azOfHosts(config, azName) : azNamed(config, azName);
    const cpi = cpiOfAz(az, context.configs.cpi.current(tables));
    const cloudProperties = isForHosts ? { pool } : diskTypeNamed(config, pool).cloudProperties;
    return { target: { cpi, az: az.name, azCpi: cpi }, cloudProperties: { ...cloudProperties } };
  });
  const { signal, requestId } = call;
  const signals = { stopping: signal, stopped: signal, requestId, taskId: 0, output: () => {} };
  try {
    return await context.cpi.call("getCapacity", target, { cloudProperties }, signals);
  } catch (error) {
    // The caller needs the CPI's own reason, e.g. that the CPI does not know its space.
    if (error instanceof CpiCallError && error.cause instanceof DomainError) throw error.cause;
    throw error;
  }
}
