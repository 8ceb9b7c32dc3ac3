import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onExit } from "./on-exit.js";

/** Returns the folder shared by all processes of one `npm test`. A test process started by hand has its own. */
export function runFolder(): string {
  process.env.DISKMESH_RUN_FOLDER ??= temporaryFolder();
  return process.env.DISKMESH_RUN_FOLDER;
}

/**
 * Makes an empty folder, which is removed when this process exits. Its path is short enough for Unix sockets below it.
 */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dm-"));
  onExit(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
