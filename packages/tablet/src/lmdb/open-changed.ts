/**
 * A process for tests: leads the tablet in each folder that it is sent, commits to it, and says what it loaded, or what
 * kept it from that.
 */
import { messageOf } from "@diskmesh/domain";
import { openLmdbStorage } from "./lmdb-storage.js";

/** What came of a folder. */
export interface OpenedChanged {
  /** As JSON, unless it was refused. */
  readonly documents?: string;
  readonly refusal?: string;
}

process.on("message", (folder: string) => void open(folder).then((opened) => process.send?.(opened)));
process.once("disconnect", () => process.exit(0));

async function open(folder: string): Promise<OpenedChanged> {
  const storage = openLmdbStorage({ folder });
  const documents: unknown[] = [];
  try {
    await storage.claim({ writer: "child", address: "127.0.0.1:1" });
    await storage.load((table, key, { document }) => documents.push({ table, key, document }));
    // More than the free pages that it has.
    const text = "y".repeat(50_000);
    await storage.commit([{ table: "hosts", key: "new", document: { text }, version: 1, previous: null }]);
    return { documents: JSON.stringify(documents) };
  } catch (error) {
    return { refusal: `${(error as Error).name}: ${messageOf(error)}` };
  } finally {
    await storage.close({ handOver: true }).catch(() => {});
  }
}
