import { lstat, readdir } from "node:fs/promises";
import { createConnection } from "node:net";
import { join } from "node:path";
import { removeFile } from "../base/remove-file.js";
import { shortSocketPath } from "./socket-path.js";

/** Kind of file at a socket's path. "dead": a socket whose process was killed. */
export type SocketState = "nothing" | "dead" | "live" | "something else";

/** Removes the file if it is a dead socket. Returns what was at the path. */
export async function clearDeadSocket(path: string): Promise<SocketState> {
  const state = await socketState(path);
  if (state === "dead") await removeFile(path);
  return state;
}

/** Removes the dead sockets in a folder whose names match. Returns their names. */
export async function clearDeadSockets(folder: string, isOurs: (name: string) => boolean): Promise<string[]> {
  const cleared: string[] = [];
  for (const name of await readdir(folder))
    if (isOurs(name) && (await clearDeadSocket(join(folder, name))) === "dead") cleared.push(name);
  return cleared;
}

export async function socketState(path: string): Promise<SocketState> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (found === undefined) return "nothing";
  if (!found.isSocket()) return "something else";
  await using short = await shortSocketPath(path);
  const code = await connectionError(short.path);
  if (code === "ENOENT") return "nothing";
  // Any other error, such as a full backlog, shows that a process listens.
  return code === "ECONNREFUSED" ? "dead" : "live";
}

function connectionError(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createConnection(path, () => {
      socket.destroy();
      resolve(undefined);
    });
    socket.once("error", (error: NodeJS.ErrnoException) => resolve(error.code));
  });
}
