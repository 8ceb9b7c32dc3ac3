import { DomainError } from "@diskmesh/domain";
import { openLmdbStorage } from "@diskmesh/tablet";

/** What came of opening a store. */
export interface Opened {
  readonly outcome: "opened" | "refused" | "failed otherwise" | "ended the process";
}

// A process of its own: LMDB maps the file, and what it finds there may end the process.
process.on("message", (folder: string) => void open(folder).then((opened) => process.send?.(opened)));
process.once("disconnect", () => process.exit(0));

async function open(folder: string): Promise<Opened> {
  const storage = openLmdbStorage({ folder });
  try {
    await storage.claim({ writer: "fuzz", address: "127.0.0.1:1" });
    await storage.load(() => {});
    await storage.commit([{ table: "hosts", key: "host-1", document: { after: "fuzz" }, version: 1, previous: null }]);
    return { outcome: "opened" };
  } catch (error) {
    return { outcome: error instanceof DomainError ? "refused" : "failed otherwise" };
  } finally {
    await storage.close({ handOver: true }).catch(() => {});
  }
}
