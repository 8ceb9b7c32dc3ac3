import type { DeviceOrder, DeviceOutcome } from "@diskmesh/api/internal";
import { acceptFrom } from "../calls/accept-request.js";
import type { AgentContext } from "../calls/context.js";
import { encodeOutcome, parseOrders } from "../calls/wire.js";
import { decideEach, type OrderKind } from "../model/memory.js";
import { decideOrder } from "../model/orders.js";

/** Runs AttachDevices and DetachDevices: decides all orders, stores them with one write, then executes each. */
export async function orderDevices(
  context: Pick<AgentContext, "orders" | "bootId" | "limits" | "devices" | "ledger">,
  kind: OrderKind,
  request: { readonly bootId: string; readonly devices: readonly DeviceOrder[] },
): Promise<DeviceOutcome[]> {
  const {
    orders: { attach },
    limits,
    devices,
    ledger,
  } = context;
  const orders = parseOrders(kind, request.devices, limits.maxDevicesPerOrder);
  acceptFrom(context, { bootId: request.bootId, stamps: orders.map(({ stamp }) => stamp) });
  const { memory, verdicts } = decideEach(ledger.memory, orders, (before, order) => {
    const { memory: after, verdict } = decideOrder(before, devices, order);
    return { memory: after, verdict: { order, verdict } };
  });
  ledger.remember(memory);
  await ledger.durable();
  const outcomes = verdicts.map(({ order, verdict }) => attach.run(order, verdict));
  return (await Promise.all(outcomes)).map((outcome) => encodeOutcome(outcome));
}
