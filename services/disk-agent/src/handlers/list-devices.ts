import type { ListDevicesResponse } from "@diskmesh/api/internal";
import type { AgentContext } from "../calls/context.js";
import { encodeAgentDevice } from "../calls/wire.js";
import { highestNumbers } from "../model/highest-numbers.js";

export async function listDevices({ bootId, devices, ledger }: AgentContext): Promise<ListDevicesResponse> {
  // The answer contains stamps of obeyed orders, so these must be durable first.
  const memory = await ledger.durable();
  const listed = devices.all().map((device) => encodeAgentDevice(device, memory));
  return { bootId, devices: listed, ...highestNumbers(memory) };
}
