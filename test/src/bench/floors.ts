import { mkdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { drainRatePerSecond } from "./measure.js";

const APPENDS = 400;

/** Appends texts to a file, and syncs it after each. */
export class BareLog implements AsyncDisposable {
  private constructor(private readonly file: Awaited<ReturnType<typeof open>>) {}

  static async open(folder: string): Promise<BareLog> {
    mkdirSync(folder, { recursive: true });
    return new BareLog(await open(join(folder, "bare"), "a"));
  }

  async append(text: string): Promise<void> {
    await this.file.appendFile(text);
    await this.file.datasync();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.file.close();
  }
}

/** Returns the number of sequential synced appends of a small document per second. */
export async function bareCommitRate(folder: string): Promise<number> {
  await using log = await BareLog.open(folder);
  const document = { id: "x", text: "x".repeat(300) };
  return await drainRatePerSecond({ concurrency: 1, count: APPENDS }, (index) =>
    log.append(`${JSON.stringify({ index, ...document })}\n`),
  );
}
