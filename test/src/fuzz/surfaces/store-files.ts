import { type ChildProcess, fork } from "node:child_process";
import { closeSync, copyFileSync, mkdirSync, openSync, rmSync, statSync, truncateSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openLmdbStorage } from "@diskmesh/tablet";
import type { Random } from "../../random.js";
import type { Opened } from "../store-opener.js";
import { randomBytes } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";

interface StoreInput {
  /** How a sound data file is changed: bytes in hex at places, of which each is taken within the file's length. */
  readonly patches: readonly { readonly at: number; readonly hex: string }[];
  /** Where it is cut off, in bytes. */
  readonly lengthBytes?: number;
}

const PAGE_BYTES = 4_096;
const DOCUMENTS = 200;
const DOCUMENTS_PER_COMMIT = 25;
const OPENER = fileURLToPath(new URL("../store-opener.js", import.meta.url));

/** The data file of a tablet, changed by whatever changes files. */
export class StoreFilesSurface implements Surface {
  readonly name = "store-files";
  readonly atOnce = 1;
  readonly counts = new Counts();
  #sound: Promise<string> | undefined;
  #opener: ChildProcess | undefined;

  constructor(private readonly folder: string) {}

  get waitsForPid(): number {
    return this.#opener?.pid ?? 0;
  }

  next(random: Random): Buffer {
    const patches = Array.from({ length: random.pick([0, 1, 1, 2, 5]) }, () => ({
      at: random.chance(0.4) ? random.below(2 * PAGE_BYTES) : random.below(2 ** 20),
      hex: randomBytes(random, random.pick([1, 4, 8, 512])).toString("hex"),
    }));
    const cut = patches.length === 0 || random.chance(0.2);
    return Buffer.from(
      JSON.stringify({
        patches,
        ...(cut && { lengthBytes: random.below(40) * random.pick([1, 512, PAGE_BYTES]) }),
      } satisfies StoreInput),
    );
  }

  async send(input: Buffer): Promise<void> {
    this.#sound ??= this.#makeSound();
    const { patches, lengthBytes } = JSON.parse(input.toString()) as StoreInput;
    const folder = join(this.folder, "changed");
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    const path = join(folder, "data.mdb");
    copyFileSync(await this.#sound, path);
    const file = openSync(path, "r+");
    for (const { at, hex } of patches) writeSync(file, Buffer.from(hex, "hex"), 0, undefined, at % statSync(path).size);
    closeSync(file);
    if (lengthBytes !== undefined && lengthBytes < statSync(path).size) truncateSync(path, lengthBytes);
    const { outcome } = await this.#open(folder);
    this.counts.add(outcome);
    if (outcome === "failed otherwise" || outcome === "ended the process")
      throw new Find(`a damaged data file is neither opened nor refused: ${outcome}`);
  }

  close(): void {
    this.#opener?.kill();
  }

  #open(folder: string): Promise<Opened> {
    this.#opener ??= fork(OPENER, { stdio: ["ignore", "ignore", "ignore", "ipc"] });
    const opener = this.#opener;
    return new Promise((resolve) => {
      const end = (): void => {
        this.#opener = undefined;
        resolve({ outcome: "ended the process" });
      };
      opener.once("exit", end);
      opener.once("message", (opened: Opened) => {
        opener.off("exit", end);
        resolve(opened);
      });
      opener.send(folder);
    });
  }

  async #makeSound(): Promise<string> {
    const folder = join(this.folder, "sound");
    const storage = openLmdbStorage({ folder });
    await storage.claim({ writer: "fuzz", address: "127.0.0.1:1" });
    await storage.load(() => {});
    const documents = Array.from({ length: DOCUMENTS }, (_, index) => ({
      table: index % 2 === 0 ? "hosts" : "devices",
      key: `key-${index}`,
      document: { index, text: "x".repeat(index * 5) },
      version: 1,
      previous: null,
    }));
    // In some commits, so that pages were freed and taken again.
    for (let at = 0; at < DOCUMENTS; at += DOCUMENTS_PER_COMMIT)
      await storage.commit(documents.slice(at, at + DOCUMENTS_PER_COMMIT));
    await storage.close({ handOver: true });
    return join(folder, "data.mdb");
  }
}
