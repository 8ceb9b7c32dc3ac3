/** A child process for tests: claims the tablet in a folder, prints that it did, and waits to be killed. */
import { openEmbeddedStorage } from "../embedded-storage.js";

const storage = openEmbeddedStorage({ folder: process.argv[2] as string });
await storage.claim({ writer: "child", address: "127.0.0.1:1" });
process.stdout.write("claimed\n");
// The reference keeps the open journal from the garbage collection, after which newer versions of Node end the process.
setInterval(() => storage, 60_000);
