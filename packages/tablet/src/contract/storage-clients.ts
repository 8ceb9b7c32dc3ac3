import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Change } from "../documents/schema.js";
import type { Claim } from "../storage/storage.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import type { Contents, StorageLocation } from "./storage-location.js";

/** The state of one tablet for a test, and the clients that the test opens. */
export class StorageClients {
  location!: StorageLocation;
  readonly #makeLocation: () => Promise<StorageLocation>;
  #opened: TrackedStorage[] = [];

  constructor(makeLocation: () => Promise<StorageLocation>) {
    this.#makeLocation = makeLocation;
  }

  async begin(): Promise<void> {
    this.location = await this.#makeLocation();
    this.#opened = [];
  }

  open(): TrackedStorage {
    const storage = new TrackedStorage(this.location.open());
    this.#opened.push(storage);
    return storage;
  }

  async openClaimed(writer = "writer"): Promise<TrackedStorage> {
    const storage = this.open();
    await claim(storage, writer);
    return storage;
  }

  async openLoaded(writer?: string): Promise<TrackedStorage> {
    const storage = await this.openClaimed(writer);
    await storage.load(() => {});
    return storage;
  }

  /** Claims the tablet and returns the contents that this new leader finds. */
  async contentsOfNext(writer?: string): Promise<Contents> {
    return contentsOf(await this.openClaimed(writer));
  }

  async end(): Promise<void> {
    await Promise.all(this.#opened.map((storage) => storage.close({ handOver: true })));
    await this.location.remove();
  }
}

/** Claims as a unique writer: the writer's name with a UUID appended. */
export function claim(storage: TrackedStorage, writer: string): Promise<Claim> {
  return storage.claim({ writer: `${writer}-${randomUUID()}`, address: "127.0.0.1:1" });
}

export function put(table: string, key: string, document: object): Change {
  return { table, key, document };
}

export function remove(table: string, key: string): Change {
  return { table, key, document: null };
}

export async function contentsOf(storage: TrackedStorage): Promise<Contents> {
  const contents: Contents = new Map();
  await storage.load((table, key, document) => {
    expect(contents.has(`${table}/${key}`), `${table}/${key} came twice`).to.equal(false);
    contents.set(`${table}/${key}`, document);
  });
  return contents;
}
