import type { Socket } from "node:net";
import type { Random } from "../random.js";
import { spoilBytes } from "./strange.js";
import { closedWithin, reset } from "./targets.js";

/** Bytes and pauses that are sent on a connection, whatever the answers are. */
export interface Conversation {
  /** Data in base64; each entry is written in its own turn of the event loop. */
  readonly writes: readonly string[];
  readonly end: "close" | "half-close" | "reset";
  /** Time in ms to wait for an answer after the last write. */
  readonly lingerMs: number;
}

export function conversation(random: Random, parts: readonly Buffer[]): Conversation {
  const spoiled = random.chance(0.3)
    ? parts.map((part) => (random.chance(0.2) ? spoilBytes(random, part) : part))
    : parts;
  const writes = random.chance(0.5) ? [Buffer.concat(spoiled)] : spoiled;
  return {
    writes: writes.map((bytes) => bytes.toString("base64")),
    end: random.pick(["close", "close", "half-close", "reset"]),
    lingerMs: random.pick([0, 5, 500]),
  };
}

/** Time in ms to wait for more data after an answer. */
const QUIET_MS = 15;

/** Sends everything, and closes the socket. Returns the received bytes, up to a limit. */
export async function converse(socket: Socket, { writes, end, lingerMs }: Conversation): Promise<Buffer> {
  const heard: Buffer[] = [];
  let heardBytes = 0;
  let saidAll = false;
  socket.on("data", (bytes: Buffer) => {
    heardBytes += bytes.length;
    if (heardBytes < 64 * 1024) heard.push(bytes);
    if (saidAll) setTimeout(() => socket.destroy(), QUIET_MS);
  });
  for (const write of writes) {
    if (socket.destroyed) break;
    socket.write(Buffer.from(write, "base64"));
    await new Promise((resolve) => setImmediate(resolve));
  }
  saidAll = true;
  if (end === "half-close") socket.end();
  const lingered = closedWithin(socket, lingerMs);
  if (end === "reset" && lingerMs === 0) reset(socket);
  await lingered;
  return Buffer.concat(heard);
}
