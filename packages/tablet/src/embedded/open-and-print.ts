/**
 * A child process for tests: opens the tablet in a folder and prints "serves" with the number of documents, or the
 * error.
 */
import { openEmbeddedStorage } from "./embedded-storage.js";

const storage = openEmbeddedStorage({ folder: process.argv[2] as string });
await storage.claim({ writer: "child", address: "127.0.0.1:1" });
let documents = 0;
await storage.load(() => documents++);
process.stdout.write(`serves ${documents}\n`);
await storage.close({ handOver: true });
