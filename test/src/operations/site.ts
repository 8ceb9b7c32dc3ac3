import { createServer } from "node:net";
import type { Network } from "../namespaces/network.js";

/** Addresses of the machines in the document. */
export const ADDRESSES = {
  "control-1": "10.0.0.11",
  "control-2": "10.0.0.12",
  "control-3": "10.0.0.13",
  "host-1": "10.0.0.21",
  "host-2": "10.0.0.22",
  "host-3": "10.0.0.23",
  "host-4": "10.0.0.24",
} as const;
const PORTS = [4222, 6222, 7010, 7020, 7023, 7030, 7040, 7041, 25555];
const ATTEMPTS = 50;

/** Addresses of the document's machines in this test. */
export interface Site {
  /** Returns the address that replaces one of the document. */
  address(given: string): string;
  /** Returns the launcher that runs a program on a machine. */
  launcher(machine: string): readonly string[];
  /** Address of this process for programs on the machines. */
  readonly ownHost: string;
}

/** Uses addresses of the loopback interface, which work everywhere and cannot be cut. */
export async function loopbackSite(): Promise<Site> {
  const subnet = await freeSubnet();
  return { address: (given) => onSubnet(subnet, given), launcher: () => [], ownHost: "127.0.0.1" };
}

/** Uses a network namespace for each machine, with the address of the document. */
export function namespacesSite(network: Network): Site {
  return { address: (given) => given, launcher: (machine) => network.launcher(machine), ownHost: network.ownHost };
}

/**
 * Returns a prefix of loopback addresses on which none of the ports is in use. On Linux all of 127.0.0.0/8 is local.
 */
async function freeSubnet(): Promise<string> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const subnet = `127.${100 + Math.floor(Math.random() * 100)}.${Math.floor(Math.random() * 256)}`;
    const free = await Promise.all(
      Object.values(ADDRESSES).flatMap((given) => PORTS.map((port) => isFree(onSubnet(subnet, given), port))),
    );
    if (!free.includes(false)) return subnet;
  }
  throw new Error(
    `the ports ${PORTS.join(", ")} are in use on all addresses of the loopback interface that were tried`,
  );
}

const onSubnet = (subnet: string, given: string): string => `${subnet}.${given.split(".")[3]}`;

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
