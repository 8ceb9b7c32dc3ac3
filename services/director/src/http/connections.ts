import type { Server, Socket } from "node:net";

/** Operators, their browsers and agents that send logs take a few connections each. */
const MAX_CONNECTIONS = 1_000;
/** One address takes no more than a quarter of the connections. */
const MAX_CONNECTIONS_PER_ADDRESS = 250;

/** Cuts connections beyond what one address may have; beyond all, the server itself does. */
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
