import { HostState } from "@diskmesh/api/registry";
import { parseOptionalName } from "@diskmesh/domain";
import type { Host } from "../model/store/schema.js";
import { hostStateOf } from "./wire.js";

/** Filter for hosts. */
export interface HostFilter {
  /** Undefined for all. */
  readonly az: string | undefined;
  readonly matches: (host: Host) => boolean;
}

export function parseHostFilter(request: { az: string; state: HostState }): HostFilter {
  const az = parseOptionalName("az", request.az);
  if (request.state === HostState.CORDONED)
    return { az, matches: (host) => isIn(host, az) && host.cordoned !== undefined };
  if (request.state === HostState.MAINTENANCE)
    return { az, matches: (host) => isIn(host, az) && host.maintenance !== undefined };
  const state = hostStateOf(request.state);
  const matches = (host: Host): boolean => isIn(host, az) && (state === undefined || host.state === state);
  return { az, matches };
}

function isIn(host: Host, az: string | undefined): boolean {
  return az === undefined || host.az === az;
}
