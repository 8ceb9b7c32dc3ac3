import type { StoredChange } from "../documents/schema.js";

/** Called after each durable commit, with its changes, duration and size. */
export type CommitListener = (
  changes: readonly StoredChange[],
  commit: { readonly transactions: number; readonly sizeBytes: number; readonly durationMs: number },
) => void;

/** Transactions that are committed together. */
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
 * Merges `changes` into `added`. If both change a key, the merged change has the document of the later change and the
 * `previous` of the earlier one.
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
