/**
 * A process for tests, whose disk has no room but a filler's, which is named second: makes room within its data file for
 * some large documents, as long as the third argument says, fills the disk, and commits one more of them than fit, over
 * and over. All of it in pages that lie apart: LMDB writes those that fit first.
 */
import { writeFileSync } from "node:fs";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { openLmdbStorage } from "./lmdb-storage.js";

const LARGE = 4;
const SMALL_COMMITS = 4;
const TRIES = 200;

const [, , folder, filler, length] = process.argv as [string, string, string, string, string];
const TEXT = "x".repeat(Number(length));
const storage = new TrackedStorage(openLmdbStorage({ folder }));
const change = (key: string, document: object | null) => ({ table: "devices", key, document });
await storage.claim({ writer: "child", address: "127.0.0.1:1" });
await storage.load();
for (let index = 0; index <= LARGE; index++) await storage.commit([change(`first-${index}`, { TEXT })]);
await storage.commit(Array.from({ length: LARGE }, (_, index) => change(`first-${index}`, null)));
// Pages that one commit freed are taken again some commits later.
for (let index = 0; index < SMALL_COMMITS; index++) await storage.commit([change("small", { index })]);
try {
  for (;;) writeFileSync(filler, Buffer.alloc(4_096), { flag: "a" });
} catch {}
const failures = new Map<string, number>();
for (let tried = 0; tried < TRIES; tried++) {
  const changes = Array.from({ length: LARGE + 1 }, (_, index) => change(`next-${index}`, { TEXT }));
  const name = await storage.commit(changes).then(
    () => "none",
    (error: Error) => error.name,
  );
  failures.set(name, (failures.get(name) ?? 0) + 1);
}
await storage.close({ handOver: true });
process.stdout.write(JSON.stringify(Object.fromEntries(failures)));
