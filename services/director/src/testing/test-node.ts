import { AgentDriverServiceDefinition } from "@diskmesh/api/internal";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { VendorCalls } from "@diskmesh/disk-agent/testing";
import { silentLogger } from "@diskmesh/domain";
import { DRIVER_LIMITS, driversConfig, noOffers } from "@diskmesh/driver/host";
import { OWN_USER, SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { DEFAULT_RPC_SERVER_LIMITS, RpcServer } from "@diskmesh/rpc";
import { systemClock } from "@diskmesh/service";
import { eventually, fakeHandlers, type TestCertificates, temporaryFolder } from "@diskmesh/testkit";

const HOST = "127.0.0.1";

/** A node's drivers, run as its agent runs them, with a registry that knows only this node. */
export class TestNode {
  readonly #servers: RpcServer[] = [];
  readonly #calls: VendorCalls;

  private constructor(readonly nodeId: string) {
    const drivers = driversConfig.parse([{ package: SAMPLE_DRIVER, ...OWN_USER }]);
    const rest = {
      offers: noOffers,
      stateFolder: temporaryFolder(),
      clock: systemClock,
      random: Math.random,
      log: silentLogger,
    };
    this.#calls = new VendorCalls({
      drivers,
      limits: DRIVER_LIMITS,
      hostId: nodeId,
      bootId: `boot-of-${nodeId}`,
      ...rest,
    });
  }

  static async start(certs: TestCertificates, nodeId: string, registryPort: number): Promise<TestNode> {
    const node = new TestNode(nodeId);
    node.#calls.start();
    await eventually(() => node.#calls.listMethods().drivers.every(({ state }) => state === "running"));
    const agent = node.#serverOf(certs, `disk-agent-${nodeId}`);
    agent.addService(AgentDriverServiceDefinition, {
      roles: ["director"],
      handlers: {
        listMethods: async () => node.#calls.listMethods(),
        callMethod: (request, call) => node.#calls.call(request, call),
        joinMethod: (request, call) => node.#calls.join(request, call),
        cancelMethod: async ({ callId }) => {
          node.#calls.cancel(callId);
          return {};
        },
      },
    });
    const address = `${HOST}:${await agent.listen({ host: HOST, port: 0 })}`;
    const registry = node.#serverOf(certs, "disk-registry");
    registry.addService(DiskRegistryServiceDefinition, {
      roles: ["director"],
      handlers: fakeHandlers(DiskRegistryServiceDefinition, {
        getHost: async () => ({ host: { hostId: nodeId, address } }),
      }),
    });
    await registry.listen({ host: HOST, port: registryPort });
    for (const server of node.#servers) server.setServing(true);
    return node;
  }

  async close(): Promise<void> {
    for (const server of this.#servers) await server.drain();
    await this.#calls.close();
  }

  #serverOf(certs: TestCertificates, name: string): RpcServer {
    const server = new RpcServer({ tls: certs.files(name), limits: DEFAULT_RPC_SERVER_LIMITS });
    this.#servers.push(server);
    return server;
  }
}
