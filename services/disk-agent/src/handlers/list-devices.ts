import type { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { Handlers } from "@diskmesh/rpc";
import type { AgentContext } from "../context.js";
import { highestNumbers } from "../model/highest-numbers.js";
import { encodeAgentDevice } from "../wire.js";

export function listDevices({
  bootId,
  devices,
  ledger,
}: AgentContext): Handlers<typeof DiskAgentServiceService>["listDevices"] {
  return async () => {
    // What is listed as obeyed must be durable.
    const memory = await ledger.durable();
    const listed = devices.all().map((device) => encodeAgentDevice(device, memory));
    return { bootId, devices: listed, ...highestNumbers(memory) };
  };
}
