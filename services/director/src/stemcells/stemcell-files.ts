import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  DomainError,
  diskFullError,
  InvalidArgumentError,
  type Logger,
  messageOf,
  parseId,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import type { DirectorTablet } from "../store/stored-schema.js";
import { CODES, coded } from "../tasks/bosh-codes.js";
import { STEMCELL_MANIFEST_SIZE_BYTES, type StemcellManifest } from "../yaml/stemcell-manifest.js";
import { Digests } from "./digests.js";
import { type TarEntry, tarEntries, unzipped } from "./tar-reader.js";

export interface StemcellFilesOptions {
  readonly folder: string;
  readonly maxUploadBytes: number;
  readonly maxUnpackedBytes: number;
  readonly maxEntries: number;
  readonly maxConcurrentUploads: number;
  /** Parses stemcell.MF. */
  readonly readManifest: (text: string) => Promise<StemcellManifest>;
  readonly tablet: DirectorTablet;
  readonly log: Logger;
}

export interface StoredStemcell {
  readonly uploadId: string;
  readonly manifest: StemcellManifest;
}

const UPLOAD_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Stemcell images, kept from their upload until the task that passes them to the CPIs has ended. */
export class StemcellFiles {
  readonly #options: StemcellFilesOptions;
  /** Uploads in progress, to which no task may refer yet. */
  readonly #uploads = new Set<string>();
  readonly #unwatch: () => void;
  #sweeping: Promise<void> = Promise.resolve();

  constructor(options: StemcellFilesOptions) {
    this.#options = options;
    this.#unwatch = options.tablet.watch((changes) => {
      if (changes.some(({ document }) => isEndedUpdate(document))) this.sweep();
    });
  }

  imagePath(uploadId: string): string {
    return join(this.#options.folder, parseId("upload_id", uploadId), "image");
  }

  /**
   * Reads a stemcell to its end and stores its image durably. `use` starts the task that needs the image. On a failure
   * the image is deleted, unless the task may have been started. `sweep` deletes the image later if no task refers to
   * it.
   */
  async receive<T>(
    bytes: AsyncIterable<Buffer>,
    digest: string,
    use: (stored: StoredStemcell) => Promise<T>,
  ): Promise<T> {
    const { folder, maxConcurrentUploads } = this.#options;
    if (this.#uploads.size >= maxConcurrentUploads) {
      throw new ResourceExhaustedError(
        `${maxConcurrentUploads} stemcells are being uploaded, the limit: try again later`,
        { reason: "QUEUE_FULL", retryAfterMs: 1_000 },
      );
    }
    const uploadId = randomUUID();
    this.#uploads.add(uploadId);
    let used = false;
    try {
      await mkdir(join(folder, uploadId), { recursive: true });
      const manifest = await this.#extract(bytes, digest, this.imagePath(uploadId));
      // Counts as used until `use` reports that nothing was started.
      used = true;
      return await use({ uploadId, manifest }).catch((error: unknown) => {
        used = error instanceof DomainError && error.outcome === "unknown";
        throw error;
      });
    } catch (error) {
      throw diskFullError(error, "cannot keep the stemcell", `${folder} (stemcells.folder)`) ?? error;
    } finally {
      this.#uploads.delete(uploadId);
      if (!used) await rm(join(folder, uploadId), { recursive: true, force: true });
    }
  }

  /** Deletes the images that no upload and no task refers to. */
  sweep(): void {
    this.#sweeping = this.#sweeping
      .then(() => this.#sweep())
      .catch((error: unknown) =>
        this.#options.log.warn({ error: messageOf(error) }, "unused stemcell image deletion failed"),
      );
  }

  async close(): Promise<void> {
    this.#unwatch();
    await this.#sweeping;
  }

  async #sweep(): Promise<void> {
    const { folder, tablet } = this.#options;
    // The folder is listed before the uploads and tasks are read. An upload that ends in between is referred to by its
    // task, so its image is kept.
    const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw error;
    });
    const kept = new Set(this.#uploads);
    await tablet.read((tables) => {
      for (const { job } of tables.tasks.by("byEnd", "live"))
        if (job?.type === "update_stemcell") kept.add(job.uploadId);
    });
    // Deletes only directories named by an upload id, because the folder may contain other files.
    const old = names.filter((name) => UPLOAD_ID.test(name) && !kept.has(name));
    for (const name of old) await rm(join(folder, name), { recursive: true, force: true });
  }

  async #extract(bytes: AsyncIterable<Buffer>, digest: string, imagePath: string): Promise<StemcellManifest> {
    const whole = new Digests();
    const image = new Digests();
    let manifest: StemcellManifest | undefined;
    let hasImage = false;
    let entries = 0;
    const { maxUploadBytes, maxUnpackedBytes } = this.#options;
    const tgz = limited(bytes, maxUploadBytes, "the stemcell has more bytes than the limit", whole);
    // The unpacked size is limited for skipped entries, too, because a small gzip file may expand to a huge size.
    const tar = limited(unzipped(tgz), maxUnpackedBytes, "the stemcell unpacks to more bytes than the limit");
    for await (const entry of tarEntries(tar)) {
      if (++entries > this.#options.maxEntries) {
        throw new InvalidArgumentError(
          `the stemcell has more than ${this.#options.maxEntries} entries, which is the limit`,
        );
      }
      const name = entry.name.replace(/^\.\//, "");
      if (!entry.isFile || (name !== "stemcell.MF" && name !== "image")) continue;
      if (name === "image" ? hasImage : manifest !== undefined)
        throw new InvalidArgumentError(`the stemcell has two entries named ${name}`);
      if (name === "image") {
        await this.#writeImage(entry, imagePath, image);
        hasImage = true;
      } else manifest = await this.#options.readManifest(await textOf(entry));
    }
    if (digest !== "") whole.check("the stemcell", digest);
    if (manifest === undefined)
      throw coded(CODES.badStemcell, new InvalidArgumentError("the stemcell has no stemcell.MF"));
    if (!hasImage) throw coded(CODES.stemcellWithoutImage, new InvalidArgumentError("the stemcell has no image"));
    image.check("the stemcell's image", manifest.digest);
    return manifest;
  }

  async #writeImage(entry: TarEntry, path: string, digests: Digests): Promise<void> {
    const file = await open(path, "wx", 0o640);
    try {
      for await (const piece of entry.content) {
        digests.update(piece);
        await file.writeFile(piece);
      }
      // The image is synced, because its task continues after a restart of this process.
      await file.sync();
    } finally {
      await file.close();
    }
  }
}

async function textOf(entry: TarEntry): Promise<string> {
  if (entry.sizeBytes > STEMCELL_MANIFEST_SIZE_BYTES)
    throw new InvalidArgumentError(
      `stemcell.MF has ${entry.sizeBytes} bytes: the limit is ${STEMCELL_MANIFEST_SIZE_BYTES}`,
    );
  const pieces: Buffer[] = [];
  for await (const piece of entry.content) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}

async function* limited(
  bytes: AsyncIterable<Buffer>,
  limitBytes: number,
  text: string,
  digests?: Digests,
): AsyncGenerator<Buffer> {
  let sizeBytes = 0;
  for await (const piece of bytes) {
    sizeBytes += piece.length;
    if (sizeBytes > limitBytes) throw new InvalidArgumentError(`${text} (${limitBytes})`);
    digests?.update(piece);
    yield piece;
  }
}

function isEndedUpdate(document: object | null): boolean {
  if (document === null || !("type" in document) || !("endedAtMs" in document)) return false;
  return document.type === "update_stemcell" && document.endedAtMs !== null;
}
