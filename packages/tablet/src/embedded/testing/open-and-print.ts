/**
 * A child process for tests: opens the tablet in a folder and prints "serves" with the number of documents, or the
 * error.
 */
import { openEmbeddedStorage } from "../embedded-storage.js";

const storage = openEmbeddedStorage({ folder: process.argv[2] as string });
await storage.claim({ writer: "child", address: "127.0.0.1:1" });
let documents = 0;
const count = (): number => documents++;
// A leader lends its documents, and then keeps a reserve for a full disk.
await storage.load(count, async () => []);
process.stdout.write(`serves ${documents}\n`);
await storage.close({ handOver: true });
