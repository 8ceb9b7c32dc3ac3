import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { InvalidStateError } from "@diskmesh/domain";

/**
 * The latest act of this node on a volume's device. `formatting`: making a file system began, and nothing was mounted since.
 * `used`: a program may have written to the device.
 */
type Use = "formatting" | "used";

interface Recorded {
  readonly attachmentId: string;
  readonly use: Use;
}

/** Records older than this are of attachments that have ended, unless there are few records. */
const KEPT_MS = 30 * 24 * 60 * 60_000;
const MAX_RECORDS = 1_000;

/**
 * Durable record of what this node did to each volume's device during the volume's present attachment. An attachment is
 * to one node, so no other node needs to know.
 */
export class DeviceUses {
  private constructor(private readonly folder: string) {}

  /** Opens the folder, and removes records of attachments that ended long ago. */
  static async open(folder: string): Promise<DeviceUses> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const names = await readdir(folder);
    if (names.length > MAX_RECORDS)
      for (const name of names) {
        const path = join(folder, name);
        if ((await stat(path)).mtimeMs < Date.now() - KEPT_MS) await rm(path);
      }
    return new DeviceUses(folder);
  }

  /** Returns undefined when this node did nothing to the device during the attachment. */
  async get(volumeId: string, attachmentId: string): Promise<Use | undefined> {
    const path = this.#pathOf(volumeId);
    const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (text === undefined) return undefined;
    const found = parsed(text);
    if (found === undefined)
      throw new InvalidStateError(
        `${path} is not a record of this driver: remove it if volume ${volumeId} is not in use`,
      );
    return found.attachmentId === attachmentId ? found.use : undefined;
  }

  /** Resolves when the record is durable. */
  async put(volumeId: string, attachmentId: string, use: Use): Promise<void> {
    await replaceFile(this.#pathOf(volumeId), JSON.stringify({ attachmentId, use }));
  }

  /** Volume IDs come from the orchestrator and may have any characters. */
  #pathOf(volumeId: string): string {
    return join(this.folder, `${createHash("sha256").update(volumeId).digest("hex")}.json`);
  }
}

function parsed(text: string): Recorded | undefined {
  try {
    const found = JSON.parse(text) as Partial<Recorded> | null;
    const isUse = found?.use === "formatting" || found?.use === "used";
    return isUse && typeof found.attachmentId === "string" ? (found as Recorded) : undefined;
  } catch {
    return undefined;
  }
}
