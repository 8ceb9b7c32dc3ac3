import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";

const BRIDGE = "mesh0";
const INTERFACE = "eth0";
const OWN_NUMBER = 1;

const run = (command: string, ...args: readonly string[]) => void execFileSync(command, args, { stdio: "pipe" });
const ip = (...args: readonly string[]) => run("ip", ...args);

/**
 * A network namespace for each machine, all on one bridge with this process. All end with the namespace of this
 * process, which must be a new one.
 */
export class Network {
  readonly #numbers: ReadonlyMap<string, number>;
  /** Address of this process for the machines. */
  readonly ownHost: string;

  /** `numbers` are the last parts of the machines' addresses, by name. */
  constructor(
    private readonly prefix: string,
    numbers: ReadonlyMap<string, number>,
  ) {
    this.#numbers = numbers;
    this.ownHost = `${prefix}.${OWN_NUMBER}`;
    // Mounts a separate file system, so that names of namespaces are visible to this process only.
    mkdirSync("/run/netns", { recursive: true });
    run("mount", "-t", "tmpfs", "none", "/run/netns");
    ip("link", "set", "lo", "up");
    ip("link", "add", BRIDGE, "type", "bridge");
    ip("addr", "add", `${this.ownHost}/24`, "dev", BRIDGE);
    ip("link", "set", BRIDGE, "up");
    for (const name of numbers.keys()) this.#add(name);
  }

  #add(name: string): void {
    const cable = this.#cable(name);
    ip("netns", "add", name);
    ip("link", "add", cable, "type", "veth", "peer", "name", INTERFACE, "netns", name);
    ip("link", "set", cable, "master", BRIDGE, "up");
    ip("-n", name, "addr", "add", `${this.host(name)}/24`, "dev", INTERFACE);
    ip("-n", name, "link", "set", INTERFACE, "up");
    ip("-n", name, "link", "set", "lo", "up");
  }

  host(name: string): string {
    return `${this.prefix}.${this.#number(name)}`;
  }

  launcher(name: string): readonly string[] {
    this.#number(name);
    return ["nsenter", `--net=/run/netns/${name}`];
  }

  /** Sets a machine's link up or down. While it is down, every packet to and from the machine is lost. */
  setLink(name: string, state: "up" | "down"): void {
    ip("link", "set", this.#cable(name), state);
  }

  /** Returns the name of the bridge's end of a machine's link. */
  #cable(name: string): string {
    return `mesh-${this.#number(name)}`;
  }

  #number(name: string): number {
    const number = this.#numbers.get(name);
    if (number === undefined) throw new Error(`${name} has no network`);
    return number;
  }
}
