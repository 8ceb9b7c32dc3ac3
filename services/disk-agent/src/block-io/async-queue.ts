import { Watch } from "@diskmesh/service";

/**
 * Passes items from many producers to one consumer, in order. `push` resolves when the consumer has taken the item, so
 * that a producer can wait for a slow consumer.
 */
export class AsyncQueue<Item> implements AsyncIterable<Item> {
  readonly #items: { item: Item; taken: () => void }[] = [];
  readonly #something = new Watch();
  #ended = false;
  #failure: { error: unknown } | undefined;

  push(item: Item): Promise<void> {
    if (this.#ended) return Promise.resolve();
    return new Promise((taken) => {
      this.#items.push({ item, taken });
      this.#something.touch();
    });
  }

  /** Ends the queue. The consumer first takes the remaining items. */
  end(): void {
    this.#ended = true;
    this.#something.touch();
  }

  /** Fails the queue: the consumer throws at once, and the remaining items are dropped. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#drop();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item> {
    try {
      for (;;) {
        if (this.#failure) throw this.#failure.error;
        const next = this.#items.shift();
        if (next) {
          next.taken();
          yield next.item;
        } else if (this.#ended) return;
        else await this.#something.changed();
      }
    } finally {
      // The consumer has left and takes no more items, so waiting producers are released.
      this.#drop();
    }
  }

  #drop(): void {
    this.#ended = true;
    for (const { taken } of this.#items.splice(0)) taken();
    this.#something.touch();
  }
}
