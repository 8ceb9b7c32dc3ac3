import type { DetachDevicesRequest, DetachDevicesResponse } from "@diskmesh/api/internal";
import type { AgentContext } from "../calls/context.js";
import { orderDevices } from "./order-devices.js";

export async function detachDevices(
  context: AgentContext,
  request: DetachDevicesRequest,
): Promise<DetachDevicesResponse> {
  return { outcomes: await orderDevices(context, "detach", request) };
}
