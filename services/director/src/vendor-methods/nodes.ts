import type { AgentDriverServiceDefinition, VendorDriver } from "@diskmesh/api/internal";
import type { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { DomainError, type JsonObject, messageOf, NotFoundError, UnavailableError } from "@diskmesh/domain";
import { catchAllMethod } from "@diskmesh/driver/host";
import type { Client } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import { startingOf, type VendorMethods, type VendorScope } from "./vendor-method.js";

type AgentDriverClient = Client<typeof AgentDriverServiceDefinition>;
type RegistryClient = Pick<Client<typeof DiskRegistryServiceDefinition>, "getHost">;

export interface NodesOptions {
  /** Queried in order. */
  readonly registries: readonly RegistryClient[];
  /** Connects to an agent, whose certificate must be the node's. */
  readonly connect: (nodeId: string, address: string) => AgentDriverClient;
  readonly limits: {
    readonly requestTimeoutMs: number;
    readonly knownForMs: number;
    readonly maxConnections: number;
  };
  readonly clock: Clock;
}

/** A node with the methods that its agent offers. */
export interface Node {
  readonly nodeId: string;
  readonly client: AgentDriverClient;
  /** The start id of the node's agent. */
  readonly bootId: string;
  readonly revision: string;
  readonly callable: VendorMethods;
  readonly drivers: readonly VendorDriver[];
}

interface Connection {
  readonly address: string;
  readonly client: AgentDriverClient;
  node: Node | undefined;
  askedAtMs: number;
}

/** Finds the agents of nodes and caches their answers. */
export class Nodes {
  readonly #options: NodesOptions;
  /** Sorted by last use, most recent last. */
  readonly #connections = new Map<string, Connection>();

  constructor(options: NodesOptions) {
    this.#options = options;
  }

  close(): void {
    for (const { client } of this.#connections.values()) client.close();
    this.#connections.clear();
  }

  /**
   * Returns the node with its methods. Throws NotFoundError for a node that no registry knows. `fresh` bypasses the
   * cache.
   */
  async find(nodeId: string, signal: AbortSignal, { fresh = false } = {}): Promise<Node> {
    const { clock, limits } = this.#options;
    const known = this.#connections.get(nodeId);
    if (
      !fresh &&
      known?.node?.callable.starting.length === 0 &&
      clock.monotonicMs() - known.askedAtMs < limits.knownForMs
    ) {
      this.#connections.delete(nodeId);
      this.#connections.set(nodeId, known);
      return known.node;
    }
    const connection = this.#connected(nodeId, await this.#addressOf(nodeId, signal));
    const request = { signal, deadlineMs: limits.requestTimeoutMs };
    const { bootId, revision, drivers } = await connection.client.listMethods({}, request).catch((error: unknown) => {
      throw nothingBegun(error, signal);
    });
    connection.node = { nodeId, client: connection.client, bootId, revision, drivers, callable: callableOf(drivers) };
    connection.askedAtMs = clock.monotonicMs();
    return connection.node;
  }

  /** Throws NotFoundError for a node that no registry knows. Does not contact the agent. */
  async requireKnown(nodeId: string, signal: AbortSignal): Promise<void> {
    if (!this.#connections.has(nodeId)) await this.#addressOf(nodeId, signal);
  }

  #connected(nodeId: string, address: string): Connection {
    const known = this.#connections.get(nodeId);
    this.#connections.delete(nodeId);
    if (known !== undefined && known.address !== address) known.client.close();
    const connection =
      known?.address === address
        ? known
        : { address, client: this.#options.connect(nodeId, address), node: undefined, askedAtMs: 0 };
    this.#connections.set(nodeId, connection);
    for (const [oldest, { client }] of this.#connections) {
      if (this.#connections.size <= this.#options.limits.maxConnections) break;
      client.close();
      this.#connections.delete(oldest);
    }
    return connection;
  }

  async #addressOf(nodeId: string, signal: AbortSignal): Promise<string> {
    const { registries, limits } = this.#options;
    if (registries.length === 0)
      throw new NotFoundError(`Node ${nodeId} could not be found: this director has no nodes.registries in its config`);
    let failure: unknown;
    for (const registry of registries) {
      try {
        const request = { signal, deadlineMs: limits.requestTimeoutMs };
        const address = (await registry.getHost({ hostId: nodeId }, request)).host?.address ?? "";
        if (address !== "") return address;
        failure ??= new UnavailableError(
          `the address of node ${nodeId} is not known yet, because its agent has not registered: try again later`,
        );
      } catch (error) {
        if (!(error instanceof NotFoundError)) failure ??= error;
      }
    }
    if (failure === undefined)
      throw new NotFoundError(`Node ${nodeId} could not be found.`, { about: { node_id: nodeId } });
    throw new UnavailableError(`node ${nodeId} cannot be looked up: ${messageOf(failure)}`, { cause: failure });
  }
}

/**
 * Returns the error of a request that starts no method. A lost answer becomes a retryable error, because nothing was
 * begun.
 */
export function nothingBegun(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted || !(error instanceof DomainError) || !error.retryable || error.outcome !== "unknown")
    return error;
  return new UnavailableError(`the method was not started: ${error.message}`, { about: error.about, cause: error });
}

function callableOf(drivers: readonly VendorDriver[]): VendorMethods {
  return {
    methods: drivers.flatMap(({ name: driver, methods }) =>
      methods.map(({ argsSchema, scope, ...method }) => ({
        ...method,
        driver,
        scope: scopeOf(scope),
        schema: (argsSchema ?? {}) as JsonObject,
      })),
    ),
    catchAlls: drivers
      .filter(({ catchAll }) => catchAll)
      .map(({ name: driver }) => ({ ...catchAllMethod("node"), driver })),
    driverCount: drivers.length,
    starting: startingOf(drivers),
  };
}

/** An unknown scope counts as admin, the highest scope. */
function scopeOf(scope: string): VendorScope {
  return scope === "read" || scope === "call" ? scope : "admin";
}
