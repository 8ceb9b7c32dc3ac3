import { randomUUID } from "node:crypto";
import {
  AgentRegistrationServiceDefinition,
  type DeviceOrder,
  DiskAgentServiceDefinition,
  OrderOutcome,
} from "@diskmesh/api/internal";
import { Health } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import {
  type Client,
  createClient,
  DEFAULT_RPC_SERVER_LIMITS,
  type Handlers,
  RpcServer,
  type TlsFiles,
} from "@diskmesh/rpc";
import { fakeHandlers } from "@diskmesh/testkit";

const HEARTBEAT_MS = 1_000;

/**
 * An agent without device files that confirms every order at once and counts orders, so that only the registry is
 * measured. Speaks the real protocol over real connections.
 */
export class OrderCountingAgent implements AsyncDisposable {
  attachOrders = 0;
  readonly #server: RpcServer;
  readonly #registration: Client<typeof AgentRegistrationServiceDefinition>;
  readonly #bootId = randomUUID();
  #heartbeats: NodeJS.Timeout | undefined;

  constructor(
    private readonly hostId: string,
    tls: TlsFiles,
    registryAddress: string,
  ) {
    this.#server = new RpcServer({ tls, limits: DEFAULT_RPC_SERVER_LIMITS });
    this.#server.addService(DiskAgentServiceDefinition, { roles: ["disk-registry"], handlers: this.#handlers() });
    this.#registration = createClient(AgentRegistrationServiceDefinition, {
      address: registryAddress,
      tls,
      serverRole: "disk-registry",
      defaultDeadlineMs: 60_000,
    });
  }

  /**
   * Registers with `deviceCount` devices, none of which has been added. The registry erases no device with health
   * ERROR. The devices are distributed evenly over `fileIdentities`, one after another in each file.
   */
  async register(
    deviceCount: number,
    health: Health = Health.ONLINE,
    fileIdentities: readonly string[] = [""],
  ): Promise<string[]> {
    const port = await this.#server.listen({ host: "127.0.0.1", port: 0 });
    const deviceIds = Array.from({ length: deviceCount }, (_, index) => `${this.hostId}-device-${index}`);
    await this.#registration.registerAgent({
      hostId: this.hostId,
      address: `127.0.0.1:${port}`,
      az: "z1",
      bootId: this.#bootId,
      devices: deviceIds.map((deviceId, index) => ({
        deviceId,
        path: `/dev/${deviceId}`,
        offsetBytes: Math.floor(index / fileIdentities.length) * MIB_BYTES,
        sizeBytes: MIB_BYTES,
        blockSizeBytes: 4096,
        serialNumber: "",
        pool: "",
        health,
        healthMessage: "",
        attached: false,
        stamp: undefined,
        sessionNumber: 0,
        sessionDiskId: "",
        fileIdentity: fileIdentities[index % fileIdentities.length] ?? "",
      })),
    });
    this.#heartbeats = setInterval(() => {
      void this.#registration.heartbeat({ hostId: this.hostId, bootId: this.#bootId }).catch(() => {});
    }, HEARTBEAT_MS);
    return deviceIds;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#heartbeats);
    this.#registration.close();
    await this.#server.drain();
  }

  #handlers(): Handlers<typeof DiskAgentServiceDefinition> {
    const obeyed = (devices: readonly DeviceOrder[]) => ({
      outcomes: devices.map(({ deviceId, stamp }) => ({ deviceId, stamp, outcome: OrderOutcome.DONE })),
    });
    return fakeHandlers(DiskAgentServiceDefinition, {
      attachDevices: async ({ devices }) => {
        this.attachOrders++;
        return obeyed(devices);
      },
      detachDevices: async ({ devices }) => obeyed(devices),
      // Reports an erase as done at once, so that erases do not affect the measurement.
      eraseDevice: async ({ deviceId, stamp }) => ({
        outcome: { deviceId, stamp, outcome: OrderOutcome.DONE },
      }),
    });
  }
}
