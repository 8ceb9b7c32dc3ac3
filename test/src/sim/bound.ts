import type { AgentMemory } from "@diskmesh/disk-agent/simulation";

type Kind = "attach" | "detach";

export interface Order {
  /** Absent where it does not matter who gave it. */
  readonly incarnation?: string;
  readonly tabletGeneration: number;
  readonly deviceGeneration: number;
  readonly kind: Kind;
}

/** Every order of the present one is newer. */
const OF_A_FORMER_INCARNATION: Order = { tabletGeneration: 0, deviceGeneration: 0, kind: "detach" };

export const compare = (a: Omit<Order, "kind">, b: Omit<Order, "kind">): number =>
  a.tabletGeneration - b.tabletGeneration || a.deviceGeneration - b.deviceGeneration;

export const text = (order: Order): string => `${order.kind} (${order.tabletGeneration}, ${order.deviceGeneration})`;

/** The orders that bind one agent, over all its runs. A lost cache releases it. */
export class Bound {
  /** The highest order that the agent has confirmed, by device. */
  readonly orders = new Map<string, Order>();
  readonly sessions = new Map<string, number>();
  /** The last detach that the agent has confirmed, by device. */
  readonly confirmedDetach = new Map<string, Order>();
  /**
   * The last attach that reached the agent, by incarnation and device. An attach from another registry opens nothing.
   */
  readonly #reachedAttach = new Map<string, Order>();
  memory: AgentMemory | undefined;
  /** Incarnations of the registry that it obeyed before. */
  readonly former = new Set<string>();

  /** An attach may reach it before it obeys whoever gave it. */
  reach(deviceId: string, order: Order): void {
    const key = `${order.incarnation} ${deviceId}`;
    const before = this.#reachedAttach.get(key);
    if (before === undefined || compare(order, before) > 0) this.#reachedAttach.set(key, order);
  }

  /** Returns true when the agent's last answer says that it no longer holds the device. */
  isDetached(deviceId: string): boolean {
    const detach = this.confirmedDetach.get(deviceId);
    const attach = this.#reachedAttach.get(`${this.memory?.incarnation} ${deviceId}`);
    return detach !== undefined && (attach === undefined || compare(attach, detach) < 0);
  }

  /** It obeys another incarnation: stamps of the one in `memory` count no more, and what is closed stays so. */
  changeOver(): void {
    for (const deviceId of [...this.confirmedDetach.keys()]) {
      if (this.isDetached(deviceId)) this.confirmedDetach.set(deviceId, OF_A_FORMER_INCARNATION);
      else this.confirmedDetach.delete(deviceId);
    }
    this.orders.clear();
  }
}
