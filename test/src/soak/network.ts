import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";
import type { Places } from "../mesh/service-group.js";

/** The range that is set aside for tests of networks; it is seen only within the soak's own network namespace. */
const PREFIX = "198.18.0";
const BRIDGE = "soak0";
const INTERFACE = "eth0";
const OWN_ADDRESS = 1;
/** Nobody has it: what is sent there is gone, and nobody says so. */
const NOWHERE = "02:00:00:00:00:fe";

/** The name in the certificate of the NATS server, which holds no addresses but those of loopback. */
const NATS_NAME = "default.nats.bosh-internal";

const run = (command: string, ...args: readonly string[]) => void execFileSync(command, args, { stdio: "pipe" });
const ip = (...args: readonly string[]) => run("ip", ...args);

/**
 * A network of its own for each process, all on one bridge with the soak's. Everything ends with the namespace of the
 * soak itself, which must be a new one.
 */
export class Network implements Places {
  readonly #hosts = new Map<string, string>();

  constructor(names: readonly string[]) {
    // So that names of namespaces are the soak's own as well.
    mkdirSync("/run/netns", { recursive: true });
    run("mount", "-t", "tmpfs", "none", "/run/netns");
    ip("link", "set", "lo", "up");
    ip("link", "add", BRIDGE, "type", "bridge");
    ip("addr", "add", `${PREFIX}.${OWN_ADDRESS}/24`, "dev", BRIDGE);
    ip("link", "set", BRIDGE, "up");
    for (const [index, name] of names.entries()) this.#add(name, index + OWN_ADDRESS + 1);
    const hostsFile = join(temporaryFolder(), "hosts");
    writeFileSync(hostsFile, `127.0.0.1 localhost\n${this.host("nats")} ${NATS_NAME}\n`);
    run("mount", "--bind", hostsFile, "/etc/hosts");
  }

  /** Where clients find NATS. */
  natsAddress(port: number): string {
    return `${NATS_NAME}:${port}`;
  }

  #add(name: string, number: number): void {
    const host = `${PREFIX}.${number}`;
    this.#hosts.set(name, host);
    ip("netns", "add", name);
    ip("link", "add", `soak-${number}`, "type", "veth", "peer", "name", INTERFACE, "netns", name);
    ip("link", "set", `soak-${number}`, "master", BRIDGE, "up");
    ip("-n", name, "addr", "add", `${host}/24`, "dev", INTERFACE);
    ip("-n", name, "link", "set", INTERFACE, "up");
    ip("-n", name, "link", "set", "lo", "up");
  }

  host(name: string): string {
    const host = this.#hosts.get(name);
    if (host === undefined) throw new Error(`${name} has no network`);
    return host;
  }

  launcher(name: string): readonly string[] {
    this.host(name);
    return ["nsenter", `--net=/run/netns/${name}`];
  }

  /** From now on every packet between the two is lost, without a word to either. */
  cut(one: string, other: string): void {
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const)
      ip("-n", from, "neigh", "replace", this.host(to), "lladdr", NOWHERE, "dev", INTERFACE, "nud", "permanent");
  }

  heal(one: string, other: string): void {
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const)
      ip("-n", from, "neigh", "del", this.host(to), "dev", INTERFACE);
  }
}
