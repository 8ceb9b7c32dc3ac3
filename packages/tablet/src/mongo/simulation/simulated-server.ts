import {
  type DocumentChange,
  type DocumentReader,
  type DocumentServer,
  type Fields,
  LostAnswerError,
  type Range,
  type StoredDocument,
  type ViewWrite,
  type WriteResult,
} from "../document-server.js";
import type { LateWrite, SimulatedProcess } from "./world.js";

/** An operation under way. The server runs its parts in sequence; other operations may run in between. */
interface Operation<T> {
  readonly parts: (() => void)[];
  /** Writes that may still arrive late or twice. */
  readonly writes: readonly LateWrite[];
  readonly result: () => T;
}

/**
 * The server as one process sees it: answers get lost, writes arrive late or twice, and operations on several documents
 * are not atomic.
 */
export class SimulatedServer implements DocumentServer {
  readonly name = "simulation";
  readonly #process: SimulatedProcess;

  constructor(process: SimulatedProcess) {
    this.#process = process;
  }

  readInOrder<T>(read: (reader: DocumentReader) => Promise<T>): Promise<T> {
    return read(this);
  }

  collections(prefix: string): Promise<string[]> {
    return this.#read(() => this.#documents.collections(prefix));
  }

  get(collection: string, id: string | number): Promise<StoredDocument | undefined> {
    return this.#read(() => this.#documents.get(collection, id));
  }

  /** Reads in two parts, like a cursor: the first half now, the documents behind it later. */
  find(
    collection: string,
    { limit, descending = false, ...range }: Range & { readonly limit: number; readonly descending?: boolean },
  ): Promise<StoredDocument[]> {
    if (descending) return this.#read(() => this.#documents.find(collection, range, true).slice(0, limit));
    const found: StoredDocument[] = [];
    const first = (): void => {
      const all = this.#documents.find(collection, range);
      found.push(...all.slice(0, Math.ceil(all.length / 2)));
    };
    const second = (): void => {
      const after = found.at(-1)?._id ?? range.after;
      found.push(...this.#documents.find(collection, { ...range, after }));
    };
    return this.#send({ parts: [first, second], writes: [], result: () => found.slice(0, limit) });
  }

  insert(collection: string, document: StoredDocument): Promise<boolean> {
    return this.#write(collection, document._id, () => this.#documents.insert(collection, document));
  }

  update(collection: string, id: string, where: Fields, change: DocumentChange): Promise<boolean> {
    return this.#write(collection, id, () => this.#documents.update(collection, id, where, change));
  }

  write(collection: string, writes: readonly ViewWrite[]): Promise<WriteResult> {
    const { world } = this.#process;
    const present: ViewWrite[] = [];
    let refused: string | undefined;
    const taken = writes.filter(() => {
      if (!world.happens(world.faults.refusal)) return true;
      refused = "too many requests";
      world.count("refusedWrites");
      return false;
    });
    const parts = taken.map((write) => () => {
      const isAbsent = this.#documents.get(collection, write.id) === undefined;
      // A real server first searches for the document to replace and then inserts a missing one, so a late write may
      // come in between.
      if (isAbsent && write.document !== null && world.happens(0.5) && world.overtake(collection, write.id)) {
        if (this.#documents.get(collection, write.id) !== undefined) {
          world.count("overtaken");
          present.push(write);
          return;
        }
      }
      if (!this.#documents.write(collection, write)) present.push(write);
    });
    const late = taken.map((write) => ({
      collection,
      id: write.id,
      run: () => void this.#documents.write(collection, write),
    }));
    return this.#send({ parts: halves(parts), writes: late, result: () => ({ present, refused }) });
  }

  delete(collection: string, range: Range): Promise<void> {
    const deletes = this.#documents.find(collection, range).map(({ _id: id }) => ({
      collection,
      id,
      run: () => this.#documents.delete(collection, id),
    }));
    const parts = deletes.map(({ run }) => run);
    return this.#send({ parts: halves(parts), writes: deletes, result: () => undefined });
  }

  async index(): Promise<void> {}

  async close(): Promise<void> {}

  get #documents(): SimulatedProcess["world"]["documents"] {
    return this.#process.world.documents;
  }

  #read<T>(read: () => T): Promise<T> {
    let result: T;
    const part = (): void => {
      result = read();
    };
    return this.#send({ parts: [part], writes: [], result: () => result });
  }

  #write<T>(collection: string, id: string | number, write: () => T): Promise<T> {
    let result: T;
    const part = (): void => {
      result = write();
    };
    return this.#send({ parts: [part], writes: [{ collection, id, run: () => void write() }], result: () => result });
  }

  #send<T>({ parts, writes, result }: Operation<T>): Promise<T> {
    const { world } = this.#process;
    const rest = [...parts];
    let begun = false;
    return new Promise((resolve, reject) => {
      const pending = {
        isDue: () => true,
        unsent: () => (begun && rest.length === 0 ? [] : writes),
        step: () => {
          if (!begun && world.loses()) {
            this.#process.done(pending);
            world.count("lostAnswers");
            for (const write of writes) if (world.happens(0.5)) write.run();
            world.sendLate(writes.filter(() => world.happens(0.5)));
            reject(new LostAnswerError("the answer was lost"));
            return;
          }
          begun = true;
          rest.shift()?.();
          if (rest.length > 0) return;
          if (world.happens(world.faults.lateAnswer)) {
            world.pause(this.#process);
            return;
          }
          this.#process.done(pending);
          resolve(result());
        },
      };
      this.#process.wait(pending);
      if (world.happens(world.faults.lateSend)) world.pause(this.#process);
    });
  }
}

/** Joins many parts into two, because more parts only make the simulation slower. */
function halves(parts: readonly (() => void)[]): (() => void)[] {
  const middle = Math.ceil(parts.length / 2);
  return [parts.slice(0, middle), parts.slice(middle)].map((half) => () => {
    for (const part of half) part();
  });
}
