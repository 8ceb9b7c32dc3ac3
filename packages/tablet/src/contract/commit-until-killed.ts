/**
 * A child process of the storage contract. It commits rising numbers until a test kills it, and prints each number once
 * the commit is acknowledged. It exits with 3 when a newer leader has fenced it.
 */
import { randomUUID } from "node:crypto";
import { writeSync } from "node:fs";
import { FencedError } from "@diskmesh/domain";
import type { TabletStorage } from "../storage/storage.js";
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
