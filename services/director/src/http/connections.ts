import type { Server, Socket } from "node:net";

/** Cuts connections beyond what one address may have; beyond all, the server itself does. */
export function limitConnections(
  server: Server,
  limits: { readonly maxConnections: number; readonly maxConnectionsPerAddress: number },
): void {
  server.maxConnections = limits.maxConnections;
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
    if (count > limits.maxConnectionsPerAddress) socket.destroy();
  });
}
