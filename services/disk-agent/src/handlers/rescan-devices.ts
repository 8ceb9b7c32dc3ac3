import type { RescanDevicesResponse } from "@diskmesh/api/internal";
import type { AgentContext } from "../calls/context.js";

export async function rescanDevices({ bootId, checks }: AgentContext): Promise<RescanDevicesResponse> {
  const { changedDeviceIds, skipped, pendingPaths } = await checks.rescan.run();
  return {
    bootId,
    changedDeviceIds: [...changedDeviceIds],
    skippedPaths: skipped.map(({ path, reason }) => ({ path, reason })),
    pendingPaths: [...pendingPaths],
  };
}
