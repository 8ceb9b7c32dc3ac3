import { mkdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { drainRatePerSecond } from "./measure.js";

const APPENDS = 400;

/** Returns the number of sequential synced appends of a small document per second. */
export async function bareCommitRate(folder: string): Promise<number> {
  mkdirSync(folder, { recursive: true });
  const file = await open(join(folder, "bare"), "a");
  try {
    const document = { id: "x", text: "x".repeat(300) };
    return await drainRatePerSecond({ concurrency: 1, count: APPENDS }, async (index) => {
      await file.appendFile(`${JSON.stringify({ index, ...document })}\n`);
      await file.datasync();
    });
  } finally {
    await file.close();
  }
}
