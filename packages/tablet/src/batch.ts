import type { StoredChange } from "./storage.js";

/** Is told of each durable commit: what it changed, and what it was. */
export type CommitListener = (
  changes: readonly StoredChange[],
  commit: { readonly transactions: number; readonly sizeBytes: number; readonly durationMs: number },
) => void;

/** Transactions that become durable together. */
export interface Batch {
  readonly changes: Map<string, StoredChange>;
  sizeBytes: number;
  transactions: number;
  /** True once handed to the storage: later transactions go into the next batch. */
  sealed: boolean;
  readonly durable: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/** Adds changes: of two of one key the later one counts, in place of what the earlier one replaced. */
export function addChanges(added: Map<string, StoredChange>, changes: readonly StoredChange[]): void {
  for (const change of changes) {
    const id = `${change.table}\0${change.key}`;
    const earlier = added.get(id);
    added.set(id, earlier === undefined ? change : { ...change, previous: earlier.previous });
  }
}

/** Adds the changes of a transaction. */
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
