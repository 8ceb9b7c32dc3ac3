/**
 * A pending detach notification: a disk was detached while the VM's agent could not be notified. The agent may have a
 * link for the disk, or may still create it.
 */
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

/** Returns a key that separates the ids by a space, because neither id contains spaces. */
export function owedRemovalKey({ agentId, attachmentId }: Pick<OwedRemoval, "agentId" | "attachmentId">): string {
  return `${agentId} ${attachmentId}`;
}
