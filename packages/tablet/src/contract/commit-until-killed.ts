/**
 * A process that the storage contract kills: commits a rising number until it is killed, and prints each number once it
 * is acknowledged. Exits with 3 when it is fenced.
 */
import { randomUUID } from "node:crypto";
import { writeSync } from "node:fs";
import { FencedError } from "@diskmesh/domain";
import type { TabletStorage } from "../storage.js";
import { TrackedStorage } from "../testing/tracked-storage.js";

const [moduleUrl, argument] = process.argv.slice(2) as [string, string];
const { openLocation } = (await import(moduleUrl)) as { openLocation(argument: string): TabletStorage };

const storage = new TrackedStorage(openLocation(argument));
await storage.claim({ writer: `child-${randomUUID()}`, address: "127.0.0.1:1" });
let n = 0;
await storage.load((table, key, document) => {
  if (table === "hosts" && key === "a") n = (document as { n: number }).n + 1;
});
try {
  for (; ; n++) {
    await storage.commit([
      { table: "hosts", key: "a", document: { n } },
      { table: "devices", key: `only-${n - 1}`, document: null },
      { table: "devices", key: `only-${n}`, document: { n } },
      { table: "devices", key: "c", document: { n, text: "x".repeat((n * 997) % 20_000) } },
      { table: "hosts", key: "b", document: { n } },
    ]);
    // writeSync, because the buffer of a stream would be lost when the process is killed.
    writeSync(1, `${n}\n`);
  }
} catch (error) {
  process.exit(error instanceof FencedError ? 3 : 1);
}
