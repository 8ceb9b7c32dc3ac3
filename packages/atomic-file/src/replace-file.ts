import * as nodeFiles from "node:fs/promises";
import { dirname } from "node:path";

/** File system operations that replaceFile needs, as in node:fs/promises. */
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
 * Writes or replaces a file atomically: after a crash either the old or the new text is there, whole. The new text is
 * durable once the promise resolves. Calls for the same path must not overlap, because the text is first written to
 * `<path>.new`; a crash may leave that file, and the next write reuses it. `mode` defaults to owner only.
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
