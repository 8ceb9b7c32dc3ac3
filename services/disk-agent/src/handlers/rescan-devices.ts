import type { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { Handlers } from "@diskmesh/rpc";
import type { AgentContext } from "../context.js";

export function rescanDevices({
  bootId,
  rescan,
}: AgentContext): Handlers<typeof DiskAgentServiceService>["rescanDevices"] {
  return async () => {
    const { changedDeviceIds, skipped, pendingPaths } = await rescan.run();
    return {
      bootId,
      changedDeviceIds: [...changedDeviceIds],
      skippedPaths: skipped.map(({ path, reason }) => ({ path, reason })),
      pendingPaths: [...pendingPaths],
    };
  };
}
