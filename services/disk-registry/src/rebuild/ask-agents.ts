import { type DeviceId, type HostId, InvalidArgumentError, messageOf, UnavailableError } from "@diskmesh/domain";
import pLimit from "p-limit";
import { type AgentClient, grpcAgents } from "../agents/agent-clients.js";
import type { Config } from "../config/config.js";
import { REGISTRY_LIMITS } from "../config/limits.js";
import type { AgentClaims, DeviceClaims, RememberedRun, RunClaim } from "../model/rebuild/claims.js";
import { MAX_RUNS_OF_DEVICE } from "../model/store/slices.js";
import { parseRegistration } from "../requests/registration-request.js";
import { parseClaim, parseLabel, parseRemembered, parseServed } from "./parse-claims.js";

/** An agent that is asked. */
export interface AskedAgent {
  readonly hostId: HostId;
  readonly address: string;
}

/** Answer of an agent, or the reason why there is none. */
export interface Answered extends AskedAgent {
  readonly answer: Answer | { readonly error: string };
}

interface Answer {
  readonly claims: AgentClaims;
  /** Time in ms for which registries must still be silent until the agent follows a rebuilt one. */
  readonly untilSilentMs: number;
}

/** Agents asked at once. */
const ASKED_AT_ONCE = 64;
/** Runs that a device's table, or its agent's memory, may have: more than a registry gives. */
const MAX_RUNS_READ = 8 * MAX_RUNS_OF_DEVICE;

/** Calls the agents with this service's certificate. */
export class Agents {
  readonly #connect: (agent: AskedAgent) => AgentClient;
  readonly #config: Pick<Config, "serialNumbersOfMany">;

  constructor(config: Pick<Config, "tls" | "serialNumbersOfMany">) {
    this.#connect = grpcAgents({ tls: config.tls, defaultDeadlineMs: REGISTRY_LIMITS.agentTimeoutMs });
    this.#config = config;
  }

  /** Asks each agent what it holds. An agent of another fleet refuses; an empty id accepts any. */
  async ask(agents: readonly AskedAgent[], fleetId: string): Promise<readonly Answered[]> {
    return this.#each(agents, async (client, { hostId, address }) => {
      try {
        return { hostId, address, answer: await this.#read(client, hostId, fleetId) };
      } catch (error) {
        return { hostId, address, answer: { error: messageOf(error) } };
      }
    });
  }

  /** Has each agent obey the incarnation. Rejects when one does not. */
  async tell(
    agents: readonly (AskedAgent & { readonly bootId: string })[],
    fleet: { readonly fleetId: string; readonly incarnation: string },
  ): Promise<void> {
    await this.#each(agents, async (client, { hostId, bootId }) => {
      try {
        await client.followRebuilt({ ...fleet, bootId });
      } catch (error) {
        throw new UnavailableError(
          `host ${hostId} does not follow, and the tablet is not complete: ${messageOf(error)}; give the command again, with --replace`,
          { cause: error },
        );
      }
    });
  }

  #each<Agent extends AskedAgent, T>(
    agents: readonly Agent[],
    call: (client: AgentClient, agent: Agent) => Promise<T>,
  ): Promise<readonly T[]> {
    const limit = pLimit(ASKED_AT_ONCE);
    return Promise.all(
      agents.map((agent) =>
        limit(async () => {
          const client = this.#connect(agent);
          try {
            return await call(client, agent);
          } finally {
            client.close();
          }
        }),
      ),
    );
  }

  async #read(client: AgentClient, hostId: HostId, fleetId: string): Promise<Answer> {
    const { registration: message, disks, untilSilentMs } = await client.followRebuilt({ fleetId });
    if (message?.hostId !== hostId)
      throw new InvalidArgumentError(`its agent describes host ${message?.hostId ?? ""}, and not ${hostId}`);
    const rules = { limits: REGISTRY_LIMITS, ...this.#config };
    const registration = parseRegistration(message, hostId, rules, Date.now());
    const devices = new Map<DeviceId, DeviceClaims>();
    for (const { deviceId, attached } of registration.devices)
      if (attached) devices.set(deviceId, await readDevice(client, deviceId));
    return { claims: { registration, devices, served: disks.map(parseServed) }, untilSilentMs };
  }
}

async function readDevice(client: AgentClient, deviceId: DeviceId): Promise<DeviceClaims> {
  const remembered: RememberedRun[] = [];
  let floor = 0;
  await pages(deviceId, async (fromOffsetBytes) => {
    const page = await client.listRuns({ deviceId, fromOffsetBytes });
    remembered.push(...page.runs.map(parseRemembered));
    floor = page.floor;
    return [page.nextOffsetBytes, remembered.length];
  });
  const claims: RunClaim[] = [];
  let [label, isTableDamaged]: [DeviceClaims["label"], boolean] = [undefined, false];
  await pages(deviceId, async (fromOffsetBytes) => {
    const page = await client.listClaims({ deviceId, fromOffsetBytes });
    claims.push(...page.claims.map(parseClaim));
    isTableDamaged ||= page.tableDamaged;
    label = page.label && parseLabel(page.label);
    return [page.nextOffsetBytes, claims.length];
  });
  return { label, isTableDamaged, claims, remembered, floor };
}

/** Reads all pages. `read` returns where the next one begins, and how many runs were read. */
async function pages(
  deviceId: DeviceId,
  read: (fromOffsetBytes: number) => Promise<readonly [next: number, count: number]>,
): Promise<void> {
  for (let from = 0; ; ) {
    const [next, count] = await read(from);
    if (count > MAX_RUNS_READ) throw new InvalidArgumentError(`device ${deviceId} has more than ${MAX_RUNS_READ} runs`);
    if (next <= from) return;
    from = next;
  }
}
