import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  AgentRegistrationServiceDefinition,
  RegisterAgentRequest,
  RegisterAgentResponse,
} from "@diskmesh/api/internal";
import { Health } from "@diskmesh/api/registry";
import { DomainError, parseHostId, retryDelayMs, TimeoutError } from "@diskmesh/domain";
import { issueCertificate } from "@diskmesh/pki";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";
import { NOOP } from "./noop.js";

/** Options of a process that simulates many agents. */
export interface StormOptions {
  readonly first: number;
  readonly count: number;
  readonly devicesPerAgent: number;
  readonly certificatesFolder: string;
  readonly registryAddress: string;
  /** Address of a server whose methods do nothing. */
  readonly noopAddress: string;
  readonly tabletId: string;
  readonly incarnation: string;
}

export type StormCommand = "certify" | "connect" | "register" | "call-noop" | "disconnect";

/** Results of all agents' registrations. */
export interface StormResult {
  readonly latenciesMs: readonly number[];
  readonly timeouts: number;
  /** Attempts that were refused because of too many calls, and were repeated. */
  readonly refused: number;
}

export const stormHostId = (index: number): string => `storm-${index}`;
export const stormDeviceId = (index: number, device: number): string => `storm-${index}-d${device}`;

// Timeout in ms of a real agent.
const REGISTER_TIMEOUT_MS = 60_000;
const BACKOFF = { minDelayMs: 100, maxDelayMs: 5_000 };
const PATIENCE_MS = 900_000;
const CERTIFIED_AT_ONCE = 8;
const CONNECTED_AT_ONCE = 32;

/** Requests are encoded before a storm and answers decoded after it, so that the agents' work is not measured. */
const { fullName, methods } = AgentRegistrationServiceDefinition;
const REGISTRATION = {
  fullName,
  methods: { ...methods, registerAgent: { ...NOOP.methods.call, name: methods.registerAgent.name } },
} as const;

class StormAgents {
  readonly #registry = new Map<number, Client<typeof REGISTRATION>>();
  readonly #noop = new Map<number, Client<typeof NOOP>>();
  #boot = 0;

  constructor(private readonly options: StormOptions) {}

  async run(command: StormCommand): Promise<StormResult> {
    switch (command) {
      case "certify":
        return this.#each(CERTIFIED_AT_ONCE, (index) => this.#certify(index));
      case "connect":
        return this.#each(CONNECTED_AT_ONCE, (index) => this.#connect(index));
      case "register":
        this.#boot++;
        return this.#register();
      case "call-noop":
        return this.#callNoop();
      case "disconnect":
        return this.#disconnect();
    }
  }

  async #disconnect(): Promise<StormResult> {
    for (const client of [...this.#registry.values(), ...this.#noop.values()]) client.close();
    this.#registry.clear();
    this.#noop.clear();
    return NOTHING_MEASURED;
  }

  /** Runs the operation for all agents at once. */
  async #storm(one: (index: number) => Promise<Tries>): Promise<StormResult> {
    const startedAtMs = performance.now();
    const { first, count } = this.options;
    const tries = await Promise.all(
      Array.from({ length: count }, async (_, offset) => {
        const { timeouts, refused } = await one(first + offset);
        return { timeouts, refused, latencyMs: performance.now() - startedAtMs };
      }),
    );
    return {
      latenciesMs: tries.map(({ latencyMs }) => latencyMs),
      timeouts: tries.reduce((sum, one) => sum + one.timeouts, 0),
      refused: tries.reduce((sum, one) => sum + one.refused, 0),
    };
  }

  /** Runs the operation for `atOnce` agents at a time, to prepare a storm. */
  async #each(atOnce: number, one: (index: number) => Promise<unknown>): Promise<StormResult> {
    const { first, count } = this.options;
    let next = first;
    const worker = async () => {
      while (next < first + count) await one(next++);
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    return NOTHING_MEASURED;
  }

  #files(index: number): TlsFiles {
    const file = (name: string) => join(this.options.certificatesFolder, name);
    return {
      caFile: file("ca.pem"),
      certFile: file(`${stormHostId(index)}.pem`),
      keyFile: file(`${stormHostId(index)}-key.pem`),
    };
  }

  async #certify(index: number): Promise<void> {
    const folder = this.options.certificatesFolder;
    const authority = {
      certPem: readFileSync(join(folder, "ca.pem"), "utf8"),
      keyPem: readFileSync(join(folder, "ca-key.pem"), "utf8"),
    };
    const { certPem, keyPem } = await issueCertificate(authority, {
      identity: { role: "disk-agent", name: parseHostId(stormHostId(index)) },
      commonName: stormHostId(index),
      dnsNames: [],
      ipAddresses: ["127.0.0.1"],
      validDays: 1,
      usages: ["client"],
    });
    const { certFile, keyFile } = this.#files(index);
    writeFileSync(certFile, certPem);
    writeFileSync(keyFile, keyPem, { mode: 0o600 });
  }

  #registryOf(index: number): Client<typeof REGISTRATION> {
    let client = this.#registry.get(index);
    if (client === undefined) {
      const address = this.options.registryAddress;
      client = createClient(REGISTRATION, { ...CLIENT_OPTIONS, address, tls: this.#files(index) });
      this.#registry.set(index, client);
    }
    return client;
  }

  #noopOf(index: number): Client<typeof NOOP> {
    let client = this.#noop.get(index);
    if (client === undefined) {
      const address = this.options.noopAddress;
      client = createClient(NOOP, { ...CLIENT_OPTIONS, address, tls: this.#files(index) });
      this.#noop.set(index, client);
    }
    return client;
  }

  /** Sends a heartbeat, so that the connection is open. */
  async #connect(index: number): Promise<void> {
    const before = { hostId: stormHostId(index), bootId: "before", ...this.#remembered() };
    await retried(() => this.#registryOf(index).heartbeat(before));
  }

  /** Registers as a real agent does: repeats with backoff until it gets the answer. */
  async #register(): Promise<StormResult> {
    const requests = this.#requests();
    const answers: Uint8Array[] = [];
    const result = await this.#storm((index) =>
      retried(async () => {
        answers.push(await this.#registryOf(index).registerAgent(requests.get(index) as Buffer));
      }),
    );
    const { devicesPerAgent } = this.options;
    for (const answer of answers) {
      const { length } = RegisterAgentResponse.decode(answer).allowedDevices;
      if (length !== devicesPerAgent) throw new Error(`${length} of ${devicesPerAgent} devices are allowed`);
    }
    return result;
  }

  #callNoop(): Promise<StormResult> {
    const requests = this.#requests();
    return this.#storm((index) => retried(() => this.#noopOf(index).call(requests.get(index) as Buffer)));
  }

  #requests(): ReadonlyMap<number, Buffer> {
    const requests = new Map<number, Buffer>();
    const { first, count } = this.options;
    for (let index = first; index < first + count; index++) {
      requests.set(index, Buffer.from(RegisterAgentRequest.encode(this.#registrationOf(index)).finish()));
    }
    return requests;
  }

  #registrationOf(index: number): RegisterAgentRequest {
    const { devicesPerAgent, tabletId, incarnation } = this.options;
    const devices = Array.from({ length: devicesPerAgent }, (_, device) => ({
      deviceId: stormDeviceId(index, device),
      path: `/dev/disk/by-id/nvme-${device}`,
      offsetBytes: 0,
      sizeBytes: 64 * 1024 * 1024,
      blockSizeBytes: 4096,
      serialNumber: `serial-${index}-${device}`,
      pool: "default",
      health: Health.ONLINE,
      attached: true,
      stamp: { tabletId, incarnation, tabletGeneration: 1, deviceGeneration: index * devicesPerAgent + device + 1 },
    }));
    return RegisterAgentRequest.fromPartial({
      hostId: stormHostId(index),
      address: "127.0.0.1:1",
      az: "z1",
      rack: `rack-${index % 100}`,
      bootId: `boot-${this.#boot}`,
      devices,
      ...this.#remembered(),
    });
  }

  #remembered() {
    const { tabletId, incarnation } = this.options;
    return { tabletId, incarnation, highestTabletGeneration: 1 };
  }
}

const CLIENT_OPTIONS = { serverRole: "disk-registry", defaultDeadlineMs: REGISTER_TIMEOUT_MS } as const;

const NOTHING_MEASURED: StormResult = { latenciesMs: [], timeouts: 0, refused: 0 };

interface Tries {
  readonly timeouts: number;
  readonly refused: number;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function retried(call: () => Promise<unknown>): Promise<Tries> {
  const untilMs = performance.now() + PATIENCE_MS;
  let timeouts = 0;
  for (let attempts = 0; ; attempts++) {
    try {
      await call();
      return { timeouts, refused: attempts - timeouts };
    } catch (error) {
      if (!(error instanceof DomainError && error.retryable) || performance.now() > untilMs) throw error;
      if (error instanceof TimeoutError) timeouts++;
      await pause(retryDelayMs(error, attempts, BACKOFF, Math.random()));
    }
  }
}

if (process.send && process.argv[1] === fileURLToPath(import.meta.url) && process.argv[2] !== undefined) {
  const agents = new StormAgents(JSON.parse(process.argv[2]) as StormOptions);
  process.on("message", (command: StormCommand) => {
    agents.run(command).then(
      (result) => process.send?.(result),
      (error: Error) => process.send?.({ error: error.message }),
    );
  });
  process.once("disconnect", () => process.exit(0));
}
