import type { DeviceOrder, DeviceOutcome } from "@diskmesh/api/agent";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { type OrderKind, rememberIdentity } from "../model/memory.js";
import { decideOrder } from "../model/orders.js";
import { encodeOutcome, parseOrders } from "../wire.js";

/** What AttachDevices and DetachDevices have in common: decide all, remember all with one write, then do each. */
export async function orderDevices(
  context: Pick<AgentContext, "attachOrders" | "bootId" | "config" | "devices" | "ledger">,
  kind: OrderKind,
  request: { readonly bootId: string; readonly devices: readonly DeviceOrder[] },
): Promise<DeviceOutcome[]> {
  const { attachOrders, config, devices, ledger } = context;
  const parsed = parseOrders(kind, request.devices, config.limits.maxDevicesPerOrder);
  acceptFrom(context, { bootId: request.bootId, stamps: parsed.map(({ order }) => order.stamp) });
  const decided = parsed.map(({ order, expected }) => {
    const { memory, verdict } = decideOrder(ledger.memory, devices, order);
    const obeys = verdict.verdict === "obey" || verdict.verdict === "converge";
    ledger.remember(obeys && expected ? rememberIdentity(memory, order.deviceId, expected) : memory);
    return { order, expected, verdict };
  });
  await ledger.durable();
  const outcomes = decided.map(({ order, verdict, expected }) => attachOrders.run(order, verdict, expected));
  return (await Promise.all(outcomes)).map(encodeOutcome);
}
