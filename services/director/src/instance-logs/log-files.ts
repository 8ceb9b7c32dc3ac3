import { createHash, type Hash, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { addAbortSignal, type Readable } from "node:stream";
import {
  CancelledError,
  DomainError,
  diskFullError,
  InvalidStateError,
  type Logger,
  messageOf,
  NotFoundError,
  ResourceExhaustedError,
  UnauthenticatedError,
} from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import pLimit from "p-limit";
import { type PackedFile, packed } from "./packed.js";

export interface LogFilesOptions {
  readonly folder: string;
  /** URL at which agents reach the HTTPS API; undefined when no URL is configured. */
  readonly url: string | undefined;
  readonly maxBytesPerAgent: number;
  readonly maxKeptBytes: number;
  readonly keptMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The upload address of an agent's logs. Valid for one upload, and known only to the agent. */
interface Destination {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A pending upload of an agent's logs. */
export interface LogUpload {
  readonly destination: Destination;
  /**
   * Returns the file after the agent has reported the upload. `said` holds the digests that the agent reported. Throws
   * when they differ from the digests of the received bytes.
   */
  taken(said: string): PackedFile;
  /** The reason of a refused upload. The agent itself receives only a status code. */
  readonly refusal: DomainError | undefined;
  /** Stops the upload. */
  end(): Promise<void>;
}

interface Expected {
  readonly authorization: string;
  readonly path: string;
  readonly aborted: AbortController;
  received?: { readonly sizeBytes: number; readonly digests: ReadonlyMap<string, string> };
  refusal?: DomainError;
  /** Settles when no write of the upload is in progress. */
  writing: Promise<unknown>;
}

export const UPLOADS_PATH = "/agent-logs";
const ALGORITHMS = ["sha1", "sha256", "sha512"] as const;
/** Matches `7.tgz`, the file of task 7, and `7.` with a random UUID, the folder in which the file is built. */
const OF_TASK = /^(\d+)\.(tgz|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;
const SWEEP_INTERVAL_MS = 60_000;

/**
 * Stores logs of instances. Agents upload over HTTPS, and the caller gets one file, which is kept for a limited time on
 * this machine only. A task that another director resumes fetches the logs again.
 */
export class LogFiles {
  readonly #options: LogFilesOptions;
  readonly #expected = new Map<string, Expected>();
  /** Folders in which files are being built. */
  readonly #drafts = new Set<string>();
  readonly #sweeper: NodeJS.Timeout;
  /** Bytes in the folder, including files being written. */
  #sizeBytes = 0;
  #sweeping: Promise<void> = Promise.resolve();
  /**
   * Serializes #makeRoom and sweeps. Two concurrent reservations would count each other's bytes, so both could fail
   * although one fits after old files are deleted; they could also subtract the same deleted file twice.
   */
  readonly #turns = pLimit(1);

  constructor(options: LogFilesOptions) {
    this.#options = options;
    this.sweep();
    this.#sweeper = setInterval(() => this.sweep(), SWEEP_INTERVAL_MS);
  }

  /** Builds the file of a task from the files that `gather` collects in a folder. Deletes the folder afterwards. */
  async make(taskId: number, gather: (folder: string) => Promise<readonly PackedFile[]>): Promise<void> {
    const { folder } = this.#options;
    const draft = join(folder, `${taskId}.${randomUUID()}`);
    this.#drafts.add(draft);
    try {
      await this.#forgetDrafts(taskId);
      await mkdir(draft, { recursive: true, mode: 0o700 });
      const files = await gather(draft);
      // BOSH serves the logs of one instance unchanged and the logs of several instances in one archive.
      let whole = files.length === 1 ? files[0]?.path : undefined;
      if (whole === undefined) {
        whole = join(draft, "whole");
        await this.#write(whole, packed(files, this.#options.clock.nowMs()));
      }
      await rename(whole, this.#fileOf(taskId));
    } catch (error) {
      throw diskFullError(error, "cannot keep the logs", `${folder} (agents.logs.folder)`) ?? error;
    } finally {
      this.#drafts.delete(draft);
      await rm(draft, { recursive: true, force: true });
      this.sweep();
    }
  }

  /** Prepares the upload of an agent's logs into the folder. */
  expect(folder: string, name: string): LogUpload {
    const { url } = this.#options;
    if (url === undefined)
      throw new InvalidStateError(
        "agents have no URL to upload their logs to: set http in the director's config, or agents.logs.url if http.listen.port is 0",
      );
    const uploadId = randomUUID();
    const authorization = `Bearer ${randomBytes(32).toString("base64url")}`;
    const path = join(folder, uploadId);
    const expected: Expected = { authorization, path, aborted: new AbortController(), writing: Promise.resolve() };
    this.#expected.set(uploadId, expected);
    return {
      destination: { url: `${url}${UPLOADS_PATH}/${uploadId}`, headers: { Authorization: authorization } },
      taken: (said) => ({ name, path, sizeBytes: checked(expected, said, url) }),
      get refusal() {
        return expected.refusal;
      },
      end: async () => {
        this.#expected.delete(uploadId);
        expected.aborted.abort(new CancelledError("the caller no longer waits for these logs"));
        await expected.writing.catch(() => {});
      },
    };
  }

  /** Receives one upload. Throws UnauthenticatedError for an unknown upload or wrong credentials. */
  async receive(uploadId: string, authorization: string | undefined, bytes: Readable): Promise<void> {
    const expected = this.#expected.get(uploadId);
    if (expected === undefined || !isSame(authorization ?? "", expected.authorization))
      throw new UnauthenticatedError("the upload is refused: no task waits for logs at this URL");
    this.#expected.delete(uploadId);
    const hashes = ALGORITHMS.map((algorithm) => [algorithm, createHash(algorithm)] as const);
    addAbortSignal(expected.aborted.signal, bytes);
    const taking = this.#write(expected.path, this.#limited(bytes, hashes));
    expected.writing = taking;
    try {
      const sizeBytes = await taking;
      const digests = new Map<string, string>(hashes.map(([algorithm, hash]) => [algorithm, hash.digest("hex")]));
      expected.received = { sizeBytes, digests };
    } catch (thrown) {
      const error =
        diskFullError(thrown, "cannot keep the logs", `${this.#options.folder} (agents.logs.folder)`) ?? thrown;
      if (error instanceof DomainError) expected.refusal = error;
      throw error;
    }
  }

  /** Returns the file of a task. The caller must read or destroy the stream. */
  async read(taskId: number): Promise<{ readonly sizeBytes: number; readonly bytes: Readable }> {
    const file = await open(this.#fileOf(taskId)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      throw new NotFoundError(
        `the logs of task ${taskId} are not on this director: only the director that fetched them keeps them, for ${this.#options.keptMs} ms; fetch the logs again`,
      );
    });
    const { size: sizeBytes } = await file.stat();
    return { sizeBytes, bytes: file.createReadStream() };
  }

  /** Deletes expired files, and expired folders that a killed director left. */
  sweep(): void {
    this.#sweeping = this.#turns(() => this.#sweep()).catch((error: unknown) =>
      this.#options.log.warn({ error: messageOf(error) }, "expired instance log deletion failed"),
    );
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeper);
    for (const { aborted } of this.#expected.values()) aborted.abort(new CancelledError("the director stops"));
    await this.#sweeping;
  }

  /** Removes folders that a killed director left for the task. */
  async #forgetDrafts(taskId: number): Promise<void> {
    const { folder } = this.#options;
    const drafts = (await namesIn(folder)).filter((name) => OF_TASK.exec(name)?.[1] === String(taskId));
    for (const name of drafts)
      if (!name.endsWith(".tgz")) await rm(join(folder, name), { recursive: true, force: true });
  }

  async #sweep(): Promise<void> {
    const { keptMs, clock } = this.#options;
    const found = await this.#entries();
    const isKept = ({ path, changedAtMs }: (typeof found)[number]) =>
      this.#drafts.has(path) || clock.nowMs() - changedAtMs < keptMs;
    const young = found.filter(isKept);
    for (const old of found.filter((each) => !young.includes(each)))
      await rm(old.path, { recursive: true, force: true });
    this.#sizeBytes = young.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  }

  async #entries(): Promise<{ readonly path: string; readonly sizeBytes: number; readonly changedAtMs: number }[]> {
    const { folder } = this.#options;
    const entries: { path: string; sizeBytes: number; changedAtMs: number }[] = [];
    for (const name of await namesIn(folder)) {
      // The folder may hold other files, so only names made by this class count.
      if (!OF_TASK.test(name)) continue;
      const path = join(folder, name);
      const found = await stat(path).catch(() => undefined);
      if (found === undefined) continue;
      const files = found.isDirectory() ? (await namesIn(path)).map((each) => join(path, each)) : [path];
      const sizes = await Promise.all(files.map(async (file) => (await stat(file).catch(() => undefined))?.size ?? 0));
      entries.push({ path, sizeBytes: sizes.reduce((sum, size) => sum + size, 0), changedAtMs: found.mtimeMs });
    }
    return entries.sort((a, b) => a.changedAtMs - b.changedAtMs);
  }

  /** Writes and syncs the file; resolves with its size. */
  async #write(path: string, bytes: AsyncIterable<Buffer>): Promise<number> {
    const file = await open(path, "wx", 0o600);
    let sizeBytes = 0;
    try {
      for await (const piece of bytes) {
        await this.#turns(() => this.#makeRoom(piece.length));
        await file.writeFile(piece);
        sizeBytes += piece.length;
      }
      await file.sync();
      return sizeBytes;
    } finally {
      await file.close();
    }
  }

  /** Deletes the oldest files when space is needed. Throws ResourceExhaustedError when deleting is not enough. */
  async #makeRoom(neededBytes: number): Promise<void> {
    const { maxKeptBytes } = this.#options;
    this.#sizeBytes += neededBytes;
    if (this.#sizeBytes <= maxKeptBytes) return;
    for (const { path, sizeBytes } of await this.#entries()) {
      if (this.#sizeBytes <= maxKeptBytes) return;
      if (!path.endsWith(".tgz")) continue;
      await rm(path, { force: true });
      this.#sizeBytes -= sizeBytes;
    }
    if (this.#sizeBytes <= maxKeptBytes) return;
    this.#sizeBytes -= neededBytes;
    throw new ResourceExhaustedError(
      `all logs being fetched exceed the limit of ${maxKeptBytes} bytes: fetch logs of fewer instances, or use filters`,
    );
  }

  async *#limited(bytes: Readable, hashes: readonly (readonly [string, Hash])[]): AsyncGenerator<Buffer> {
    const { maxBytesPerAgent } = this.#options;
    let sizeBytes = 0;
    try {
      for await (const piece of bytes) {
        sizeBytes += piece.length;
        if (sizeBytes > maxBytesPerAgent)
          throw new ResourceExhaustedError(
            `the logs exceed the limit of ${maxBytesPerAgent} bytes per agent: use filters`,
          );
        for (const [, hash] of hashes) hash.update(piece);
        yield piece;
      }
    } catch (error) {
      if (error instanceof DomainError) throw error;
      throw new CancelledError("the agent closed the connection while it uploaded its logs", { cause: error });
    }
  }

  #fileOf(taskId: number): string {
    return join(this.#options.folder, `${taskId}.tgz`);
  }
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
}

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest();

function isSame(given: string, expected: string): boolean {
  return timingSafeEqual(digestOf(given), digestOf(expected));
}

/**
 * Returns the size of the received file if its digests match. `said` is a digest list such as `<sha1>;sha512:<hex>`.
 */
function checked({ received }: Expected, said: string, url: string): number {
  if (received === undefined)
    throw new InvalidStateError(
      `the agent reported an upload of its logs, but none arrived at ${url} (agents.logs.url): check that agents reach this URL`,
    );
  const { digests, sizeBytes } = received;
  const pairs = said.split(";").map((each) => (each.includes(":") ? each.split(":") : ["sha1", each]));
  const known = pairs.filter(([algorithm = ""]) => digests.has(algorithm));
  const isWhole = known.length > 0 && known.every(([algorithm = "", hex]) => digests.get(algorithm) === hex);
  if (isWhole) return sizeBytes;
  throw new InvalidStateError("the uploaded logs do not have the digest that the agent reported: fetch the logs again");
}
