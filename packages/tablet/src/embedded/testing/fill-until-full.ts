/**
 * A child process for tests with a full disk or a file size limit: commits until a commit fails, deletes the file named
 * by the second argument, if any, and makes one more small commit.
 */
import { rmSync } from "node:fs";
import { messageOf } from "@diskmesh/domain";
import { TrackedStorage } from "../../testing/tracked-storage.js";
import { openEmbeddedStorage } from "../embedded-storage.js";
import { openEmbeddedEventLog } from "../events/embedded-event-log.js";

process.on("unhandledRejection", () => process.exit(9));
const [, , folder, filler] = process.argv as [string, string, string, string?];
const log = openEmbeddedEventLog({ folder: `${folder}-events` });
await log.append("task-1", ["first"]);
const storage = new TrackedStorage(openEmbeddedStorage({ folder }));
await storage.claim({ writer: "child", address: "127.0.0.1:1" });
await storage.load();
let committed = 0;
const commitMessage = await messageOfFirstFailure(async () => {
  await storage.commit([
    { table: "hosts", key: "counter", document: { i: committed } },
    { table: "devices", key: `large-${committed}`, document: { text: "x".repeat(200_000) } },
  ]);
  committed++;
});
// Larger than a stream file, so that the append also reaches a limit on file sizes.
const appendMessage = await messageOfFirstFailure(() => log.append("task-1", Array(15).fill("x".repeat(200_000))));
if (filler !== undefined) rmSync(filler);
await storage.commit([{ table: "hosts", key: "small", document: { i: committed } }]);
await log.append("task-1", ["last"]);
const { lines } = await log.read("task-1", { from: 0, limit: 10_000 });
await storage.close({ handOver: true });
await log.close();
const ends = [lines.at(0), lines.at(-1)];
process.stdout.write(JSON.stringify({ committed, commitMessage, appendMessage, ends }));

async function messageOfFirstFailure(action: () => Promise<unknown>): Promise<string> {
  for (;;) {
    try {
      await action();
    } catch (error) {
      return `${(error as Error).name}: ${messageOf(error)}`;
    }
  }
}
