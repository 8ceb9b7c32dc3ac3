import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onExit } from "./on-exit.js";

/** A new empty folder, removed when this process exits. Its path is short enough for Unix sockets below it. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dm-"));
  onExit(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A TCP port of the loopback interface that nobody listened on a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        typeof address === "object" && address ? resolve(address.port) : reject(new Error("no port")),
      );
    });
  });
}
