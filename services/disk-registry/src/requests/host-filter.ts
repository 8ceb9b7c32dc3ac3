import type { HostState } from "@diskmesh/api/registry";
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
  const state = hostStateOf(request.state);
  const matches = (host: Host): boolean =>
    (az === undefined || host.az === az) && (state === undefined || host.state === state);
  return { az, matches };
}
