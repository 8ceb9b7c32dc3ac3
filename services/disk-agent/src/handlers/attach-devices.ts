import type { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { Handlers } from "@diskmesh/rpc";
import type { AgentContext } from "../context.js";
import { orderDevices } from "./order-devices.js";

export function attachDevices(context: AgentContext): Handlers<typeof DiskAgentServiceService>["attachDevices"] {
  return async (request) => ({ outcomes: await orderDevices(context, "attach", request) });
}
