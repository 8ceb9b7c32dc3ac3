/** A process for tests, whose files may not grow far: commits until that fails, then one small thing more. */
import { messageOf } from "@diskmesh/domain";
import { openLmdbStorage } from "./lmdb-storage.js";

process.on("unhandledRejection", () => process.exit(9));
const storage = openLmdbStorage({ folder: process.argv[2] as string });
await storage.claim({ writer: "child", address: "127.0.0.1:1" });
let committed = 0;
let message = "";
while (message === "") {
  try {
    await storage.commit([
      { table: "hosts", key: "counter", document: { i: committed } },
      { table: "devices", key: `large-${committed}`, document: { text: "x".repeat(200_000) } },
    ]);
    committed++;
  } catch (error) {
    message = messageOf(error);
  }
}
await storage.commit([{ table: "hosts", key: "small", document: { i: committed } }]);
await storage.close({ handOver: true });
process.stdout.write(JSON.stringify({ committed, message }));
