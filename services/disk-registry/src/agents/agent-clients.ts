import { DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import { DomainError, type HostId, messageOf, UnavailableError } from "@diskmesh/domain";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";
import type { Leader } from "../model/devices/orders.js";
import type { Host } from "../model/store/schema.js";
import { rememberedOf } from "../requests/registration-request.js";
import type { Fleet } from "./fleet.js";

export type AgentClient = Client<typeof DiskAgentServiceDefinition>;

/** Makes a client of a host's agent, which must prove to be the agent of that very host. */
export type ConnectAgent = (host: Pick<Host, "hostId" | "address">) => AgentClient;

/** Over gRPC. The agent must carry the host's name in its certificate. */
export function grpcAgents(options: { readonly tls: TlsFiles; readonly defaultDeadlineMs: number }): ConnectAgent {
  return ({ hostId, address }) =>
    createClient(DiskAgentServiceDefinition, {
      ...options,
      address,
      serverRole: "disk-agent",
      serverName: hostId,
    });
}

type AskedFleet = Pick<Fleet, "leader" | "knows" | "hear" | "hearRefusal" | "requireLeads">;

/** The way to tell agents anything. One connection per host, made with its first order. */
export class AgentClients {
  readonly #clients = new Map<HostId, { readonly address: string; readonly client: AgentClient }>();
  readonly #connect: ConnectAgent;
  readonly #fleet: AskedFleet;
  readonly #checkLease: () => void;

  constructor(
    connect: ConnectAgent,
    fleet: AskedFleet,
    /** Throws while another process may lead the tablet. */
    checkLease: () => void,
  ) {
    this.#connect = connect;
    this.#fleet = fleet;
    this.#checkLease = checkLease;
  }

  /**
   * Sends one order, unless another registry may lead. An agent that has not yet told this leader what it remembers is
   * asked first: an order from a store that was copied back must not reach it. `leader`: of when the order was planned.
   */
  async order<T>(
    host: Host,
    { leader, deadlineMs }: { readonly leader: Leader; readonly deadlineMs: number },
    send: (client: AgentClient) => Promise<T>,
  ): Promise<T> {
    await this.introduce(host, deadlineMs);
    this.#checkMayAct();
    if (this.#fleet.leader().tabletGeneration !== leader.tabletGeneration)
      throw new UnavailableError(
        `host ${host.hostId} was told nothing: the registry claimed another generation meanwhile`,
      );
    try {
      return await send(this.#clientOf(host));
    } catch (error) {
      if (error instanceof DomainError) await this.#fleet.hearRefusal(host.hostId, error);
      throw error;
    }
  }

  /** Has this leader learn what the host's agent remembers, unless it knows. Rejects when nothing may be told to the host. */
  async introduce(host: Host, deadlineMs: number): Promise<void> {
    this.#checkMayAct();
    if (!this.#fleet.knows(host.hostId, host.bootId)) await this.#ask(host, this.#clientOf(host), deadlineMs);
  }

  /** The host is gone for good. */
  forget(hostId: HostId): void {
    this.#clients.get(hostId)?.client.close();
    this.#clients.delete(hostId);
  }

  close(): void {
    for (const { client } of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  async #ask({ hostId, bootId }: Host, client: AgentClient, deadlineMs: number): Promise<void> {
    try {
      const answer = await client.listDevices({}, { deadlineMs });
      await this.#fleet.hear(hostId, answer.bootId, rememberedOf(answer));
      if (answer.bootId === bootId) return;
    } catch (error) {
      throw new UnavailableError(`host ${hostId} was not asked what it remembers: ${messageOf(error)}`, {
        cause: error,
      });
    }
    throw new UnavailableError(`the agent of host ${hostId} was started anew: its registration is waited for`);
  }

  #checkMayAct(): void {
    this.#checkLease();
    this.#fleet.requireLeads();
  }

  #clientOf(host: Host): AgentClient {
    const known = this.#clients.get(host.hostId);
    if (known?.address === host.address) return known.client;
    known?.client.close();
    const client = this.#connect(host);
    this.#clients.set(host.hostId, { address: host.address, client });
    return client;
  }
}
