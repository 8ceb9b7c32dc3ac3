import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:net";

/** Above 10080, the last port to which `fetch` and browsers refuse to connect. */
const FIRST_PORT = 10_081;
/** Linux's default; used where the setting cannot be read, and where it leaves hardly any ports below it. */
const DEFAULT_EPHEMERAL_FROM = 32_768;
const FEWEST_PORTS = 1_000;
const ATTEMPTS = 1_000;

/** Linux answers on all of 127.0.0.0/8. Whoever asks for a port takes it here first. */
const RESERVED_ON = "127.68.77.1";

/**
 * The first of `count` TCP ports in a row of the loopback interface that nobody listens on, and that no other process of
 * the tests is given before this one ends: a service that is killed must find its port free when it starts again. They
 * lie below those that the kernel gives to outgoing connections, for the same reason.
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

/** Reserved before it is looked at: a look takes the port for a moment, and another process may just be starting on its own. */
async function areReserved(ports: readonly number[]): Promise<boolean> {
  const reservations: Server[] = [];
  for (const port of ports) {
    const reservation = await listen(port, RESERVED_ON);
    if (reservation === undefined) break;
    reservations.push(reservation.unref());
    const look = await listen(port, "127.0.0.1");
    if (look === undefined) break;
    await closed(look);
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
