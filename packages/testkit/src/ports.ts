import { readFileSync } from "node:fs";
import { createServer } from "node:net";

const FIRST_PORT = 10_000;
/** As Linux comes; used where it cannot be read, and where the kernel was told to give nearly all ports away. */
const DEFAULT_EPHEMERAL_FROM = 32_768;
const FEWEST_PORTS = 1_000;
const ATTEMPTS = 1_000;

/**
 * The first of `count` TCP ports in a row of the loopback interface that nobody listened on a moment ago. They lie below
 * those that the kernel gives to outgoing connections: a process that is killed and started again would now and then
 * find its port taken by some client's connection.
 */
export async function freePort(count = 1): Promise<number> {
  const end = ephemeralFrom() - count;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const first = FIRST_PORT + Math.floor(Math.random() * (end - FIRST_PORT));
    const ports = Array.from({ length: count }, (_, index) => first + index);
    if (!(await Promise.all(ports.map(isFree))).includes(false)) return first;
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

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
