import type { ListDevicesResponse } from "@diskmesh/api/internal";
import type { AgentContext } from "../context.js";
import { highestNumbers } from "../model/highest-numbers.js";
import { encodeAgentDevice } from "../wire.js";

export async function listDevices({ bootId, devices, ledger }: AgentContext): Promise<ListDevicesResponse> {
  // The answer contains stamps of obeyed orders, so these must be durable first.
  const memory = await ledger.durable();
  const listed = devices.all().map((device) => encodeAgentDevice(device, memory));
  return { bootId, devices: listed, ...highestNumbers(memory) };
}
