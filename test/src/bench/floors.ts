import { mkdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { drainRatePerSecond } from "./measure.js";

const APPENDS = 400;

/** A file to which texts are appended, each synced. */
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

/** Bare synced appends a second, one after the other, each of a small document. */
export async function bareCommitRate(folder: string): Promise<number> {
  await using log = await BareLog.open(folder);
  const document = { id: "x", text: "x".repeat(300) };
  return await drainRatePerSecond({ concurrency: 1, count: APPENDS }, (index) =>
    log.append(`${JSON.stringify({ index, ...document })}\n`),
  );
}
