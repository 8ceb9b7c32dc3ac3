import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:net";

/** First port that `fetch` and browsers connect to; 10080 is the last one on their list of blocked ports. */
const FIRST_PORT = 10_081;
/**
 * Linux's default start of the ephemeral ports. Used when the setting is unreadable or leaves too few ports below it.
 */
const DEFAULT_EPHEMERAL_FROM = 32_768;
const FEWEST_PORTS = 1_000;
const ATTEMPTS = 1_000;

/**
 * Address on which a test process listens to reserve a port from other test processes. Linux accepts all of
 * 127.0.0.0/8.
 */
const RESERVED_ON = "127.68.77.1";

/**
 * Returns the first of `count` consecutive free TCP ports on the loopback interface. They stay reserved from other test
 * processes until this process ends, and lie below the ephemeral ports, so a killed service finds its port free when it
 * restarts.
 */
export async function freePort(count = 1, random: () => number = Math.random): Promise<number> {
  const end = ephemeralFrom() - count;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const first = FIRST_PORT + Math.floor(random() * (end - FIRST_PORT));
    const ports = Array.from({ length: count }, (_, index) => first + index);
    if (await areReserved(ports)) return first;
  }
  throw new Error(`no ${count} free ports in a row from ${FIRST_PORT} to ${end}`);
}

function ephemeralFrom(): number {
  try {
    const from = Number(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s+/)[0]);
    return from >= FIRST_PORT + FEWEST_PORTS ? from : DEFAULT_EPHEMERAL_FROM;
  } catch {
    return DEFAULT_EPHEMERAL_FROM;
  }
}

/**
 * Reserves each port before testing it, because the test itself occupies the port for a moment, in which another
 * process may start on it.
 */
async function areReserved(ports: readonly number[]): Promise<boolean> {
  const reservations: Server[] = [];
  for (const port of ports) {
    const reservation = await listen(port, RESERVED_ON);
    if (reservation === undefined) break;
    reservations.push(reservation.unref());
    const probe = await listen(port, "127.0.0.1");
    if (probe === undefined) break;
    await closed(probe);
    if (reservations.length === ports.length) return true;
  }
  await Promise.all(reservations.map(closed));
  return false;
}

function listen(port: number, host: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", (error: NodeJS.ErrnoException) =>
      error.code === "EADDRINUSE" ? resolve(undefined) : reject(error),
    );
    server.listen({ port, host, exclusive: true }, () => resolve(server));
  });
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
