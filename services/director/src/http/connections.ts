import type { Server, Socket } from "node:net";

/** Maximum number of connections. Enough for operators, browsers and agents that upload logs: each needs a few. */
const MAX_CONNECTIONS = 1_000;
/** Maximum number of connections of one client address: a quarter of all connections. */
const MAX_CONNECTIONS_PER_ADDRESS = 250;

/** Closes connections beyond the limit of their address. The server itself enforces the total limit. */
export function limitConnections(server: Server): void {
  server.maxConnections = MAX_CONNECTIONS;
  const counts = new Map<string, number>();
  server.on("connection", (socket: Socket) => {
    const address = socket.remoteAddress ?? "";
    const count = (counts.get(address) ?? 0) + 1;
    counts.set(address, count);
    socket.once("close", () => {
      const left = (counts.get(address) ?? 1) - 1;
      if (left > 0) counts.set(address, left);
      else counts.delete(address);
    });
    if (count > MAX_CONNECTIONS_PER_ADDRESS) socket.destroy();
  });
}
