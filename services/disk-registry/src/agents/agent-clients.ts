import { DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import { DomainError, type HostId, messageOf, UnavailableError } from "@diskmesh/domain";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";
import type { Leader } from "../model/devices/orders.js";
import type { Host } from "../model/store/schema.js";
import { rememberedOf } from "../requests/registration-request.js";
import type { Fleet } from "./fleet.js";

export type AgentClient = Client<typeof DiskAgentServiceDefinition>;

/** Creates a client for a host's agent. The agent must authenticate as that host. */
export type ConnectAgent = (host: Pick<Host, "hostId" | "address">) => AgentClient;

/** Connects over gRPC. The agent's certificate must name the host. */
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

/** Sends requests to agents. Each host has one connection, opened with its first order. */
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
   * Sends one order, unless another registry may lead. An agent that has not yet reported its remembered numbers to
   * this leader is asked for them first, because an order from a store that was copied back must not reach it. `leader`
   * is the leader at the time the order was planned.
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

  /** Ensures that this leader knows what the host's agent remembers. Rejects when the host may not be sent anything. */
  async introduce(host: Host, deadlineMs: number): Promise<void> {
    this.#checkMayAct();
    if (!this.#fleet.knows(host.hostId, host.bootId)) await this.#ask(host, this.#clientOf(host), deadlineMs);
  }

  /** Drops the connection of a host that is gone for good. */
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
