import type { HostId } from "@diskmesh/domain";

/** An incarnation other than this registry's that an agent obeys or that an operator had this registry adopt. */
export interface OtherFleet {
  readonly tabletId: string;
  /** Empty for agents that never received an incarnation. */
  readonly incarnation: string;
  /** Host whose agent first reported it; empty when an operator did. */
  readonly hostId: HostId | "";
  readonly heardAtMs: number;
  /**
   * Time of the adoption. While absent, an incarnation of this registry's own tablet stops this registry's orders and
   * changes.
   */
  readonly adoptedAtMs?: number | undefined;
}
