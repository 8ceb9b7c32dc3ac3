import { createConnection } from "node:net";
import { ByteReader } from "../nbd/byte-reader.js";
import { NbdClient } from "../nbd/client.js";
import { greetServer, openExport } from "../nbd/client-handshake.js";
import { COMMAND, encodeRequest } from "../nbd/protocol.js";
import { shortSocketPath } from "../nbd/socket-path.js";

const BLOCK_BYTES = 4096;
const CLIENTS = 4;

/** Writers of one disk. */
export interface Flood {
  /** Number of acknowledged writes. */
  writes(): number;
  /** Sends the rest of the request that was sent in part. */
  sendRest(): void;
  /** Resolves once every write has failed. */
  readonly ended: Promise<unknown>;
  /** Ends the connections. */
  close(): void;
}

/**
 * Writes to random blocks until the writes fail, `depth` of them at a time. Sends one more write in part: its rest
 * follows with `sendRest`. Every write has other bytes than the ones before it.
 */
export async function beginFlood(socketPath: string, depth = 64): Promise<Flood> {
  const clients = await Promise.all(
    Array.from({ length: Math.min(CLIENTS, depth) }, () => NbdClient.connect({ socketPath })),
  );
  const rest = await sendInPart(socketPath);
  let writes = 0;
  let begun = 0;
  const write = async (client: NbdClient): Promise<void> => {
    for (;;) {
      const block = Math.floor(Math.random() * (client.sizeBytes / BLOCK_BYTES));
      begun += 1;
      await client.write(block * BLOCK_BYTES, Buffer.alloc(BLOCK_BYTES, `write ${begun} `));
      writes += 1;
    }
  };
  const running = Array.from({ length: depth }, (_, index) => write(clients[index % clients.length] as NbdClient));
  return {
    writes: () => writes,
    sendRest: rest.send,
    ended: Promise.allSettled(running),
    close: () => {
      for (const client of clients) client.destroy();
      rest.close();
    },
  };
}

/** Sends a write request for the first block without the end of its data. */
async function sendInPart(socketPath: string): Promise<{ send(): void; close(): void }> {
  await using short = await shortSocketPath(socketPath);
  const socket = createConnection(short.path);
  // The server may have ended the connection before the rest.
  socket.on("error", () => undefined);
  const reader = new ByteReader(socket);
  await greetServer(reader, socket);
  await openExport(reader, socket, "");
  const request = { flags: 0, command: COMMAND.WRITE, cookie: 1n, offsetBytes: 0n, lengthBytes: BLOCK_BYTES };
  const data = Buffer.alloc(BLOCK_BYTES, "sent in two parts ");
  socket.write(Buffer.concat([encodeRequest(request), data.subarray(0, BLOCK_BYTES / 2)]));
  return {
    send: () => void socket.write(data.subarray(BLOCK_BYTES / 2)),
    close: () => void socket.destroy(),
  };
}
