import type { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { Handlers } from "@diskmesh/rpc";
import type { AgentContext } from "../context.js";
import { encodeAgentDevice } from "../wire.js";

export function listDevices({
  bootId,
  devices,
  ledger,
}: AgentContext): Handlers<typeof DiskAgentServiceService>["listDevices"] {
  return async () => {
    // What is listed as obeyed must be durable.
    await ledger.durable();
    return { bootId, devices: devices.all().map((device) => encodeAgentDevice(device, ledger.memory)) };
  };
}
