/** A child process for tests: claims the tablet in a folder, prints that it did, and waits to be killed. */
import { openEmbeddedStorage } from "./embedded-storage.js";

await openEmbeddedStorage({ folder: process.argv[2] as string }).claim({ writer: "child", address: "127.0.0.1:1" });
process.stdout.write("claimed\n");
setInterval(() => {}, 60_000);
