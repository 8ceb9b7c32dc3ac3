import { DiskAgentServiceDefinition, type ListRunsResponse } from "@diskmesh/api/internal";
import { type DeviceId, DomainError, type HostId, messageOf, UnavailableError } from "@diskmesh/domain";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";
import type { Leader } from "../model/devices/orders.js";
import type { Host } from "../model/store/schema.js";
import { rememberedOf } from "../requests/registration-request.js";
import type { Fleet } from "./fleet.js";

export type AgentClient = Client<typeof DiskAgentServiceDefinition>;

/** Creates a client for a host's agent. The client refuses a server whose certificate does not name that host. */
export type ConnectAgent = (host: Pick<Host, "hostId" | "address">) => AgentClient;

/** Returns a factory of gRPC clients. Each client requires that the agent's certificate names the host. */
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
    /** Throws UnavailableError when this process may no longer lead the tablet, because its lease may have ended. */
    checkLease: () => void,
  ) {
    this.#connect = connect;
    this.#fleet = fleet;
    this.#checkLease = checkLease;
  }

  /**
   * Sends one order. Sends nothing and throws when another registry leads the fleet, or when this registry's generation
   * is no longer that of `leader`, under which the order was planned. First asks an agent for its remembered numbers if
   * it has not reported them to this leader: they show whether this registry's store is an old copy, whose orders must
   * not reach the agent.
   */
  async order<T>(
    host: Host,
    { leader, deadlineMs }: { readonly leader: Leader; readonly deadlineMs: number },
    send: (client: AgentClient) => Promise<T>,
  ): Promise<T> {
    await this.introduce(host, deadlineMs);
    this.#checkMayAct();
    if (this.#fleet.leader().tabletGeneration !== leader.tabletGeneration)
      throw new UnavailableError(`host ${host.hostId} got no order: the registry claimed another generation meanwhile`);
    try {
      return await send(this.#clientOf(host));
    } catch (error) {
      if (error instanceof DomainError) await this.#fleet.hearRefusal(host.hostId, error);
      throw error;
    }
  }

  /**
   * Has the agent report its remembered numbers, if it has not reported them to this leader yet. Rejects when no order
   * may be sent to the host.
   */
  async introduce(host: Host, deadlineMs: number): Promise<void> {
    this.#checkMayAct();
    if (!this.#fleet.knows(host.hostId, host.bootId)) await this.#ask(host, this.#clientOf(host), deadlineMs);
  }

  /** Returns a page of the runs that the agent remembers. The agent may be one that has not registered yet. */
  async listRuns(
    agent: Pick<Host, "hostId" | "address" | "bootId">,
    request: { readonly deviceId: DeviceId; readonly fromOffsetBytes: number },
    deadlineMs: number,
  ): Promise<ListRunsResponse> {
    const { hostId, bootId } = agent;
    this.#checkMayAct();
    let page: ListRunsResponse;
    try {
      page = await this.#clientOf(agent).listRuns(request, { deadlineMs });
    } catch (error) {
      throw new UnavailableError(`the runs of host ${hostId} were not read: ${messageOf(error)}`, { cause: error });
    }
    if (page.bootId === bootId) return page;
    throw new UnavailableError(`the agent of host ${hostId} was restarted while it registered: try again`);
  }

  /** Closes the connection of a host that was purged. */
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
      throw new UnavailableError(`the memory of host ${hostId} was not read: ${messageOf(error)}`, {
        cause: error,
      });
    }
    throw new UnavailableError(`the agent of host ${hostId} was restarted and has not registered yet: try again`);
  }

  #checkMayAct(): void {
    this.#checkLease();
    this.#fleet.requireLeads();
  }

  #clientOf(host: Pick<Host, "hostId" | "address">): AgentClient {
    const known = this.#clients.get(host.hostId);
    if (known?.address === host.address) return known.client;
    known?.client.close();
    const client = this.#connect(host);
    this.#clients.set(host.hostId, { address: host.address, client });
    return client;
  }
}
