import type { AttachDevicesRequest, AttachDevicesResponse } from "@diskmesh/api/internal";
import type { AgentContext } from "../calls/context.js";
import { orderDevices } from "./order-devices.js";

export async function attachDevices(
  context: AgentContext,
  request: AttachDevicesRequest,
): Promise<AttachDevicesResponse> {
  return { outcomes: await orderDevices(context, "attach", request) };
}
