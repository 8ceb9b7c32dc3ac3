import type { Change } from "./schema.js";

/** Transactions that become durable together. */
export interface Batch {
  readonly changes: Map<string, Change>;
  sizeBytes: number;
  transactions: number;
  /** True once handed to the storage: later transactions go into the next batch. */
  sealed: boolean;
  readonly durable: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
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
