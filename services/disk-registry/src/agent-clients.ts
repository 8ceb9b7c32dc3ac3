import { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { HostId } from "@diskmesh/domain";
import { type Client, createClient, type TlsFiles } from "@diskmesh/rpc";
import type { Host } from "./model/schema.js";

export type AgentClient = Client<typeof DiskAgentServiceService>;

/** Makes a client of a host's agent, which must prove to be the agent of that very host. */
export type ConnectAgent = (host: Pick<Host, "hostId" | "address">) => AgentClient;

/** Over gRPC. The agent must carry the host's name in its certificate. */
export function grpcAgents(options: { readonly tls: TlsFiles; readonly defaultDeadlineMs: number }): ConnectAgent {
  return ({ hostId, address }) =>
    createClient(DiskAgentServiceService, { ...options, address, serverRole: "disk-agent", serverName: hostId });
}

/** One connection per host, made with its first order. */
export class AgentClients {
  readonly #clients = new Map<HostId, { readonly address: string; readonly client: AgentClient }>();
  readonly #connect: ConnectAgent;
  readonly #checkMayAct: () => void;

  constructor(
    connect: ConnectAgent,
    /** Throws while another registry may lead. */
    checkMayAct: () => void,
  ) {
    this.#connect = connect;
    this.#checkMayAct = checkMayAct;
  }

  /** For sending at once: what was read before an await may be another leader's to order by now. */
  of(host: Host): AgentClient {
    this.#checkMayAct();
    const known = this.#clients.get(host.hostId);
    if (known?.address === host.address) return known.client;
    known?.client.close();
    const client = this.#connect(host);
    this.#clients.set(host.hostId, { address: host.address, client });
    return client;
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
}
