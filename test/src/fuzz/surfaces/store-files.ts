import { closeSync, cpSync, openSync, readdirSync, rmSync, statSync, truncateSync, writeSync } from "node:fs";
import { join } from "node:path";
import { DomainError, messageOf } from "@diskmesh/domain";
import { openEmbeddedStorage } from "@diskmesh/tablet";
import type { Random } from "../../random.js";
import { randomBytes } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";

interface StoreInput {
  /** Index of the changed file of an intact tablet, modulo the number of files. */
  readonly file: number;
  /** Changes: bytes in hex at positions, each modulo the file's length. */
  readonly patches: readonly { readonly at: number; readonly hex: string }[];
  /** Length in bytes to which the file is truncated; absent for none. */
  readonly lengthBytes?: number;
}

const SECTOR_BYTES = 512;
const LIVES = 3;
const DOCUMENTS = 200;
const DOCUMENTS_PER_COMMIT = 25;
const LEADER = { writer: "fuzz", address: "127.0.0.1:1" };

/** Damaged files of an embedded tablet. */
export class StoreFilesSurface implements Surface {
  readonly name = "store-files";
  readonly atOnce = 1;
  readonly counts = new Counts();
  #sound: Promise<string> | undefined;

  constructor(private readonly folder: string) {}

  next(random: Random): Buffer {
    const patches = Array.from({ length: random.pick([0, 1, 1, 2, 5]) }, () => ({
      at: random.below(2 ** 20),
      hex: randomBytes(random, random.pick([1, 4, 8, 512])).toString("hex"),
    }));
    const cut = patches.length === 0 || random.chance(0.2);
    return Buffer.from(
      JSON.stringify({
        file: random.below(64),
        patches,
        ...(cut && { lengthBytes: random.below(40) * random.pick([1, 7, SECTOR_BYTES]) }),
      } satisfies StoreInput),
    );
  }

  async send(input: Buffer): Promise<void> {
    this.#sound ??= this.#makeSound();
    const { file, patches, lengthBytes } = JSON.parse(input.toString()) as StoreInput;
    const folder = join(this.folder, "changed");
    rmSync(folder, { recursive: true, force: true });
    cpSync(await this.#sound, folder, { recursive: true });
    const names = readdirSync(folder).filter((name) => name !== "owner.lock");
    const path = join(folder, names.sort()[file % names.length] as string);
    const descriptor = openSync(path, "r+");
    for (const { at, hex } of patches)
      writeSync(descriptor, Buffer.from(hex, "hex"), 0, undefined, at % statSync(path).size);
    closeSync(descriptor);
    if (lengthBytes !== undefined && lengthBytes < statSync(path).size) truncateSync(path, lengthBytes);
    await this.#open(folder);
  }

  async #open(folder: string): Promise<void> {
    const storage = openEmbeddedStorage({ folder });
    try {
      await storage.claim(LEADER);
      await storage.load(() => {});
      await storage.commit([{ table: "hosts", key: "new", document: { after: "fuzz" }, version: 1, previous: null }]);
      this.counts.add("opened");
    } catch (error) {
      if (!(error instanceof DomainError))
        throw new Find(`a damaged file is neither opened nor refused: ${messageOf(error)}`);
      this.counts.add("refused");
    } finally {
      await storage.close({ handOver: true }).catch(() => {});
    }
  }

  /** Creates an intact tablet with a snapshot and later journals. */
  async #makeSound(): Promise<string> {
    const folder = join(this.folder, "sound");
    const documents = Array.from({ length: DOCUMENTS }, (_, index) => ({
      table: index % 2 === 0 ? "hosts" : "devices",
      key: `key-${index}`,
      document: { index, text: "x".repeat(index * 5) },
      version: 1,
    }));
    for (let life = 0; life < LIVES; life++) {
      const storage = openEmbeddedStorage({ folder, journalsBytesMin: life === 0 ? 1 : 2 ** 30 });
      await storage.claim(LEADER);
      await storage.load(
        () => {},
        async () => documents,
      );
      for (let at = 0; at < DOCUMENTS; at += DOCUMENTS_PER_COMMIT)
        await storage.commit(
          documents.slice(at, at + DOCUMENTS_PER_COMMIT).map((each) => ({ ...each, previous: null })),
        );
      await storage.close({ handOver: true });
    }
    return folder;
  }
}
