import { spawn } from "node:child_process";
import { once } from "node:events";
import { readlinkSync } from "node:fs";
import { join } from "node:path";
import { type Verb, Verbs, WireGuard } from "@diskmesh/disk-agent/testing";
import type { HostId } from "@diskmesh/domain";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { portOf } from "./between-hosts.js";
import { command, type Devices } from "./device-mapper.js";

/** User without rights. */
export const NOBODY = 65_534;
export const UDP_PORT = 51_820;
/** Time in ms after which a connection is not made. */
const CONNECT_TIMEOUT_MS = 3_000;

/** A network namespace: what a machine of its own would have for a network. */
export class Network {
  /** Words before a program that runs there. */
  readonly prefix: readonly string[];

  private constructor(readonly pid: number | undefined) {
    this.prefix = pid === undefined ? [] : ["nsenter", `--net=/proc/${pid}/ns/net`];
  }

  /** The namespace of this process. The kernel's own NVMe/TCP connects from here alone. */
  static readonly here = new Network(undefined);

  /** Makes a namespace, which lives until `devices` end. */
  static async make(devices: Devices): Promise<Network> {
    const holder = spawn("unshare", ["--net", "sleep", "100000"], { stdio: "ignore" });
    const exited = once(holder, "exit");
    const { pid } = holder;
    if (pid === undefined) throw new Error("unshare did not start");
    devices.later(async () => {
      holder.kill("SIGKILL");
      await exited;
    });
    const ours = readlinkSync("/proc/self/ns/net");
    await eventually(() => readlinkSync(`/proc/${pid}/ns/net`) !== ours);
    const network = new Network(pid);
    await network.run("ip", "link", "set", "lo", "up");
    return network;
  }

  run(...words: string[]): Promise<string> {
    const [program = "", ...args] = [...this.prefix, ...words];
    return command(program, ...args);
  }

  /** Makes a link to another namespace, with these addresses. */
  async link(other: Network, names: readonly [string, string], addresses: readonly [string, string]): Promise<void> {
    const [own, others] = names;
    await command("ip", "link", "add", own, "type", "veth", "peer", "name", others);
    for (const [network, name, address] of [
      [this, own, addresses[0]],
      [other, others, addresses[1]],
    ] as const) {
      if (network.pid !== undefined) await command("ip", "link", "set", name, "netns", `${network.pid}`);
      await network.run("ip", "address", "add", address, "dev", name, ...(address.includes(":") ? ["nodad"] : []));
      await network.run("ip", "link", "set", name, "up");
    }
  }

  /** Tries a TCP connection as a user. Returns "connected", or why not. */
  connect(address: string, port: number, uid = 0): Promise<string> {
    const script = `require("net").connect({ host: "${address}", port: ${port} })
      .on("connect", () => end("connected")).on("error", ({ code }) => end(code)).setTimeout(${CONNECT_TIMEOUT_MS}, () => end("no answer"));
      function end(text) { process.stdout.write(text); process.exit(); }`;
    // Entering a namespace needs root, so the program itself becomes the user.
    const asUser = `process.setgroups([]); process.setgid(${uid}); process.setuid(${uid});`;
    return this.run(process.execPath, "--eval", uid === 0 ? script : asUser + script);
  }

  /** Verbs of an agent that runs there. */
  get verbs(): Verbs {
    const { prefix } = this;
    return new (class extends Verbs {
      override run(subject: string, verb: Verb, check?: () => void): Promise<string> {
        const script = `script=$1; shift; exec ${[...prefix, "sh"].join(" ")} -euc "$script" verb "$@"`;
        return super.run(subject, { ...verb, script, args: [verb.script, ...verb.args] }, check);
      }
    })();
  }
}

/** WireGuard of a host there. */
export function makeWireGuard(
  hostId: HostId,
  network: Network,
  host: string,
  { folder = temporaryFolder(), isUsed = true } = {},
): WireGuard {
  return new WireGuard({
    ...{ hostId, isUsed, keyFile: join(folder, "wireguard.key"), verbs: network.verbs },
    endpoint: { host, port: UDP_PORT },
    nvmePort: portOf(hostId),
  });
}

/** Starts WireGuard of a host there. `devices` end it. */
export async function startWireGuard(devices: Devices, ...of: Parameters<typeof makeWireGuard>): Promise<WireGuard> {
  const wireguard = makeWireGuard(...of);
  devices.later(() => wireguard.remove());
  const whyNot = await wireguard.start();
  if (whyNot !== undefined) throw new Error(whyNot);
  return wireguard;
}

/** Returns packets and bytes of each counter of an nft chain, in their order. */
export async function countersIn(
  network: Network,
  table: string,
): Promise<readonly { packets: number; bytes: number }[]> {
  const text = await network.run("nft", "list", "table", "inet", table);
  return [...text.matchAll(/counter packets (\d+) bytes (\d+)/g)].map(([, packets, bytes]) => ({
    packets: Number(packets),
    bytes: Number(bytes),
  }));
}
