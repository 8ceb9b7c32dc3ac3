import * as nodeFiles from "node:fs/promises";
import { dirname } from "node:path";

/** What replacing a file takes of a file system; Node's own is one. */
export interface FileSystem {
  open(path: string, flags: "r" | "w", mode: number): Promise<OpenFile>;
  rename(from: string, to: string): Promise<void>;
}

interface OpenFile {
  writeFile(text: string): Promise<void>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Writes a file, or replaces it, so that after a crash at any moment either the old or the new text is there, whole; once
 * it resolves it is the new one. One at a time for each path: the text is first written to `<path>.new`, which a crash
 * may leave and the next write takes over. `mode` is for its owner alone by default.
 */
export async function replaceFile(
  path: string,
  text: string,
  { mode = 0o600, files = nodeFiles }: { readonly mode?: number; readonly files?: FileSystem } = {},
): Promise<void> {
  const draft = `${path}.new`;
  await using file = await openDisposable(files, draft, "w", mode);
  await file.handle.writeFile(text);
  await file.handle.sync();
  await files.rename(draft, path);
  await using folder = await openDisposable(files, dirname(path), "r", mode);
  await folder.handle.sync();
}

async function openDisposable(files: FileSystem, path: string, flags: "r" | "w", mode: number) {
  const handle = await files.open(path, flags, mode);
  return { handle, [Symbol.asyncDispose]: () => handle.close() };
}
