import type { Change, StoredChange, StoredDocument } from "../documents/schema.js";
import type { Claim, ClaimOptions, Leader, TabletStorage } from "../storage/storage.js";

/**
 * Drives a storage without a tablet, for tests and benchmarks. It remembers the stored documents, because each change
 * must name the document that it replaces.
 */
export class TrackedStorage {
  readonly inner: TabletStorage;
  #contents = new Map<string, StoredDocument>();
  #committing: Promise<unknown> = Promise.resolve();

  constructor(inner: TabletStorage) {
    this.inner = inner;
  }

  claim(leader: Leader, options?: ClaimOptions): Promise<Claim> {
    return this.inner.claim(leader, options);
  }

  async load(onDocument: (table: string, key: string, document: object) => void = () => {}): Promise<void> {
    const contents = new Map<string, StoredDocument>();
    await this.inner.load(
      (table, key, stored) => {
        contents.set(`${table}/${key}`, { table, key, ...stored });
        onDocument(table, key, stored.document);
      },
      async () => {
        await this.#committing.catch(() => {});
        return [...this.#contents.values()];
      },
    );
    this.#contents = contents;
  }

  commit(changes: readonly Change[]): Promise<void> {
    const committing = this.#commit(changes);
    this.#committing = committing;
    return committing;
  }

  async #commit(changes: readonly Change[]): Promise<void> {
    const after = new Map<string, StoredDocument | null>();
    const stored = changes.map((change): StoredChange => {
      const id = `${change.table}/${change.key}`;
      const before = after.get(id);
      const previous = before === undefined ? (this.#contents.get(id) ?? null) : before;
      after.set(id, change.document === null ? null : { ...change, document: change.document, version: 1 });
      return { ...change, version: 1, previous };
    });
    await this.inner.commit(stored);
    for (const [id, document] of after) {
      if (document === null) this.#contents.delete(id);
      else this.#contents.set(id, document);
    }
  }

  claimAbove(generation: number): Promise<number> {
    return this.inner.claimAbove(generation);
  }

  renew(): Promise<void> {
    return this.inner.renew();
  }

  close(options: { readonly handOver: boolean }): Promise<void> {
    return this.inner.close(options);
  }
}
