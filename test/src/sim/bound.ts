import { OrderOutcome } from "@diskmesh/api/internal";
import type { AgentMemory } from "@diskmesh/disk-agent/simulation";

type Kind = "attach" | "detach";

export interface Order {
  /** Absent where the incarnation does not matter. */
  readonly incarnation?: string;
  readonly tabletGeneration: number;
  readonly deviceGeneration: number;
  readonly kind: Kind;
}

/** Placeholder for an order of a former incarnation; every order of the present one is newer. */
const OF_A_FORMER_INCARNATION: Order = { tabletGeneration: 0, deviceGeneration: 0, kind: "detach" };

export const compare = (a: Omit<Order, "kind">, b: Omit<Order, "kind">): number =>
  a.tabletGeneration - b.tabletGeneration || a.deviceGeneration - b.deviceGeneration;

export const text = (order: Order): string => `${order.kind} (${order.tabletGeneration}, ${order.deviceGeneration})`;

/** Outcomes that show that the agent obeyed the order, whether or not it succeeded. */
export const OBEYED: ReadonlySet<OrderOutcome> = new Set([
  OrderOutcome.DONE,
  OrderOutcome.ALREADY,
  OrderOutcome.PENDING,
  OrderOutcome.DEVICE_CHANGED,
  OrderOutcome.IO_ERROR,
]);
export const DONE: ReadonlySet<OrderOutcome> = new Set([OrderOutcome.DONE, OrderOutcome.ALREADY]);
export const LET_GO: ReadonlySet<OrderOutcome> = new Set([
  ...DONE,
  OrderOutcome.UNKNOWN_DEVICE,
  OrderOutcome.DEVICE_CHANGED,
]);

/** Orders that one agent must obey, over all its runs. A lost cache resets them. */
export class Bound {
  /** Highest order that the agent has confirmed, by device. */
  readonly orders = new Map<string, Order>();
  readonly sessions = new Map<string, number>();
  /** Last detach that the agent has confirmed, by device. */
  readonly confirmedDetach = new Map<string, Order>();
  /** Last attach that reached the agent, by incarnation and device. An attach of another registry opens nothing. */
  readonly #reachedAttach = new Map<string, Order>();
  memory: AgentMemory | undefined;
  /** Incarnations that the agent obeyed before. */
  readonly former = new Set<string>();

  /** Records an attach that reached the agent, possibly before the agent obeys its sender. */
  reach(deviceId: string, order: Order): void {
    const key = `${order.incarnation} ${deviceId}`;
    const before = this.#reachedAttach.get(key);
    if (before === undefined || compare(order, before) > 0) this.#reachedAttach.set(key, order);
  }

  /** Returns whether the agent's last confirmation for the device is a detach. */
  isDetached(deviceId: string): boolean {
    const detach = this.confirmedDetach.get(deviceId);
    const attach = this.#reachedAttach.get(`${this.memory?.incarnation} ${deviceId}`);
    return detach !== undefined && (attach === undefined || compare(attach, detach) < 0);
  }

  /** Changes to another incarnation: stamps of the former one no longer count, but closed devices stay closed. */
  changeOver(): void {
    for (const deviceId of [...this.confirmedDetach.keys()]) {
      if (this.isDetached(deviceId)) this.confirmedDetach.set(deviceId, OF_A_FORMER_INCARNATION);
      else this.confirmedDetach.delete(deviceId);
    }
    this.orders.clear();
  }
}

type DeviceMemory = NonNullable<ReturnType<AgentMemory["devices"]["get"]>>;

/** Returns a session that goes on and has lost bytes; undefined for none. */
export function shortenedSession(
  was: DeviceMemory | undefined,
  is: DeviceMemory,
): { readonly number: number } | undefined {
  const now = is.sessions ?? [];
  return was?.sessions?.find(({ number, offsetBytes, sizeBytes, ended }) => {
    const kept = now.find((each) => each.number === number && each.offsetBytes === offsetBytes);
    return !ended && kept !== undefined && !kept.ended && kept.sizeBytes < sizeBytes;
  });
}
