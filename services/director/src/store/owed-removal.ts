/** A disk that was taken from a VM whose agent could not be told: the agent may have a link for it, or make one yet. */
export interface OwedRemoval {
  readonly agentId: string;
  /** The attachment that ended. */
  readonly attachmentId: string;
  readonly diskName: string;
  readonly diskCid: string;
  readonly instanceId: string;
  readonly vmCid: string;
  readonly sinceMs: number;
}

/** Neither id holds a space. */
export function owedRemovalKey({ agentId, attachmentId }: Pick<OwedRemoval, "agentId" | "attachmentId">): string {
  return `${agentId} ${attachmentId}`;
}
