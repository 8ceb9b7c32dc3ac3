import {
  PluginCapability_VolumeExpansion_Type as Expansion,
  type IdentityDefinition,
  PluginCapability_Service_Type as Service,
} from "@diskmesh/api/csi";
import { VERSION } from "@diskmesh/domain";
import type { SocketHandlers } from "@diskmesh/rpc";
import type { Readiness } from "@diskmesh/service";
import { DRIVER_NAME } from "./model/topology.js";

/** Every process reports the same capabilities, whichever modes it runs in. */
const CAPABILITIES = [
  ...[Service.CONTROLLER_SERVICE, Service.VOLUME_ACCESSIBILITY_CONSTRAINTS].map((type) => ({
    type: { $case: "service" as const, value: { type } },
  })),
  { type: { $case: "volumeExpansion" as const, value: { type: Expansion.OFFLINE } } },
];

export function identityHandlers(readiness: Pick<Readiness, "report">): SocketHandlers<typeof IdentityDefinition> {
  return {
    getPluginInfo: async () => ({ name: DRIVER_NAME, vendorVersion: VERSION }),
    getPluginCapabilities: async () => ({ capabilities: CAPABILITIES }),
    probe: async () => ({ ready: readiness.report().ready }),
  };
}
