import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import { Health } from "@diskmesh/api/registry";
import { DomainError, parseHostId, retryDelayMs } from "@diskmesh/domain";
import { issueCertificate } from "@diskmesh/pki";
import { type Client, createClient } from "@diskmesh/rpc";
import { DEVICES_PER_HOST, deviceIdOf, hostIdOf, identityOf } from "./stored-fleet.js";

/** Agents of the hosts from `first` on, in one process. */
export interface FleetAgentsOptions {
  readonly first: number;
  readonly count: number;
  readonly certificatesFolder: string;
  readonly registryAddress: string;
  readonly tabletId: string;
  readonly incarnation: string;
}

/** `connect` certifies the agents and opens their connections; `register` registers all at once, then they beat. */
export type FleetCommand = "connect" | "register";

// Times in ms of a real agent.
const REGISTER_TIMEOUT_MS = 60_000;
const HEARTBEAT_MS = 2_000;
const BACKOFF = { minDelayMs: 100, maxDelayMs: 5_000 };
const CONNECTED_AT_ONCE = 16;

type Registration = Client<typeof AgentRegistrationServiceDefinition>;

class FleetAgents {
  readonly #clients = new Map<number, Registration>();
  readonly #timers: NodeJS.Timeout[] = [];
  #boot = 0;

  constructor(private readonly options: FleetAgentsOptions) {}

  async run(command: FleetCommand): Promise<void> {
    const { first, count } = this.options;
    const hosts = Array.from({ length: count }, (_, index) => first + index);
    if (command === "connect")
      await Promise.all(
        Array.from({ length: CONNECTED_AT_ONCE }, async () => {
          for (let host = hosts.pop(); host !== undefined; host = hosts.pop()) await this.#connect(host);
        }),
      );
    else {
      for (const timer of this.#timers.splice(0)) clearInterval(timer);
      this.#boot++;
      await Promise.all(hosts.map((host) => this.#register(host)));
      for (const host of hosts) void this.#beat(host);
    }
  }

  async #connect(host: number): Promise<void> {
    const { certificatesFolder, registryAddress: address } = this.options;
    const file = (name: string) => join(certificatesFolder, name);
    const authority = {
      certPem: readFileSync(file("ca.pem"), "utf8"),
      keyPem: readFileSync(file("ca-key.pem"), "utf8"),
    };
    const name = parseHostId(hostIdOf(host));
    const { certPem, keyPem } = await issueCertificate(authority, {
      identity: { role: "disk-agent", name },
      commonName: name,
      dnsNames: [],
      ipAddresses: ["127.0.0.1"],
      validDays: 1,
      usages: ["client"],
    });
    const tls = { caFile: file("ca.pem"), certFile: file(`${name}.pem`), keyFile: file(`${name}-key.pem`) };
    writeFileSync(tls.certFile, certPem);
    writeFileSync(tls.keyFile, keyPem, { mode: 0o600 });
    const options = { address, tls, serverRole: "disk-registry", defaultDeadlineMs: REGISTER_TIMEOUT_MS } as const;
    const client = createClient(AgentRegistrationServiceDefinition, options);
    this.#clients.set(host, client);
    await client.heartbeat({ hostId: name, bootId: "before", ...this.#remembered() }).catch(() => {});
  }

  /** Registers as a real agent does: repeats with backoff until it gets the answer. */
  async #register(host: number): Promise<void> {
    const { tabletId, incarnation } = this.options;
    const devices = Array.from({ length: DEVICES_PER_HOST }, (_, device) => ({
      ...identityOf(host, device),
      deviceId: deviceIdOf(host, device),
      health: Health.ONLINE,
      attached: true,
      stamp: { tabletId, incarnation, tabletGeneration: 1, deviceGeneration: host * DEVICES_PER_HOST + device + 1 },
    }));
    const place = { address: "127.0.0.1:1", az: "z1", rack: `rack-${host % 100}` };
    for (let attempts = 0; ; attempts++)
      try {
        const request = { ...this.#named(host), ...place, devices };
        await this.#clients.get(host)?.registerAgent(request);
        return;
      } catch (error) {
        if (!(error instanceof DomainError && error.retryable)) throw error;
        await sleep(retryDelayMs(error, attempts, BACKOFF, Math.random()));
      }
  }

  /** Sends heartbeats, at times that differ between hosts. */
  async #beat(host: number): Promise<void> {
    await sleep(Math.random() * HEARTBEAT_MS);
    const beat = () =>
      void this.#clients
        .get(host)
        ?.heartbeat(this.#named(host))
        .catch(() => {});
    beat();
    this.#timers.push(setInterval(beat, HEARTBEAT_MS));
  }

  #named(host: number) {
    return { hostId: hostIdOf(host), bootId: `boot-${this.#boot}`, ...this.#remembered() };
  }

  #remembered() {
    const { tabletId, incarnation } = this.options;
    return { tabletId, incarnation, highestTabletGeneration: 1 };
  }
}

const agents = new FleetAgents(JSON.parse(process.argv[2] ?? "") as FleetAgentsOptions);
process.on("message", (command: FleetCommand) => {
  agents.run(command).then(
    () => process.send?.("done"),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.once("disconnect", () => process.exit(0));
