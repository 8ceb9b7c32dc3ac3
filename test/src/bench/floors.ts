import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { open } from "lmdb";
import { drainRatePerSecond } from "./measure.js";

const PUTS = 400;

/** Durable commits a second of the bare storage engine, one after the other, each a small document. */
export async function bareCommitRate(folder: string): Promise<number> {
  mkdirSync(folder, { recursive: true });
  const database = open({ path: join(folder, "bare.mdb") });
  const document = { id: "x", text: "x".repeat(300) };
  try {
    return await drainRatePerSecond({ concurrency: 1, count: PUTS }, async (index) => {
      await database.put(index, document);
      await database.flushed;
    });
  } finally {
    await database.close();
  }
}
