import type { StoredChange } from "./storage.js";

/** Called on each durable commit with its changes and figures. */
export type CommitListener = (
  changes: readonly StoredChange[],
  commit: { readonly transactions: number; readonly sizeBytes: number; readonly durationMs: number },
) => void;

/** Transactions that become durable together. */
export interface Batch {
  readonly changes: Map<string, StoredChange>;
  sizeBytes: number;
  transactions: number;
  /** True once the batch was handed to the storage; later transactions go into the next batch. */
  sealed: boolean;
  readonly durable: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Adds changes. The later of two changes of one key wins, and keeps as its previous document that of the earlier one.
 */
export function addChanges(added: Map<string, StoredChange>, changes: readonly StoredChange[]): void {
  for (const change of changes) {
    const id = `${change.table}\0${change.key}`;
    const earlier = added.get(id);
    added.set(id, earlier === undefined ? change : { ...change, previous: earlier.previous });
  }
}

export function addToBatch(batch: Batch, changes: readonly StoredChange[], sizeBytes: number): void {
  addChanges(batch.changes, changes);
  batch.sizeBytes += sizeBytes;
  batch.transactions++;
}

export function newBatch(): Batch {
  let resolve: () => void = () => {};
  let reject: (reason: Error) => void = () => {};
  const durable = new Promise<void>((onDurable, onFailure) => {
    resolve = onDurable;
    reject = onFailure;
  });
  return { changes: new Map(), sizeBytes: 0, transactions: 0, sealed: false, durable, resolve, reject };
}
