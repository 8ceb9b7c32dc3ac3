import type { AgentMemory } from "@diskmesh/disk-agent/simulation";

export type Kind = "attach" | "detach";

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

/** What one agent is bound to, over all its runs. A cache that was lost sets it free. */
export class Bound {
  /** By device: the highest order that the agent has answered for. */
  readonly orders = new Map<string, Order>();
  readonly sessions = new Map<string, number>();
  /** By device: the last detach that it has confirmed, and the last attach that reached it. */
  readonly confirmedDetach = new Map<string, Order>();
  readonly reachedAttach = new Map<string, Order>();
  memory: AgentMemory | undefined;
  /** Incarnations of the registry that it obeyed before. */
  readonly former = new Set<string>();

  /** Whether its last word is that it holds the device no more. */
  isDetached(deviceId: string): boolean {
    const detach = this.confirmedDetach.get(deviceId);
    const attach = this.reachedAttach.get(deviceId);
    return detach !== undefined && (attach === undefined || compare(attach, detach) < 0);
  }

  /** It obeys another incarnation: stamps of the former one count no more, and what is closed stays so. */
  changeOver(incarnation: string): void {
    for (const [deviceId, detach] of [...this.confirmedDetach]) {
      const attach = this.reachedAttach.get(deviceId);
      const isDetached = attach === undefined || attach.incarnation === incarnation || compare(attach, detach) < 0;
      if (isDetached) this.confirmedDetach.set(deviceId, OF_A_FORMER_INCARNATION);
      else this.confirmedDetach.delete(deviceId);
    }
    this.orders.clear();
    for (const [deviceId, attach] of this.reachedAttach)
      if (attach.incarnation !== incarnation) this.reachedAttach.delete(deviceId);
  }
}
