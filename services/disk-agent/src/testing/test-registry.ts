import { createHash } from "node:crypto";
import {
  AgentRegistrationServiceDefinition,
  type DeviceOutcome,
  DiskAgentServiceDefinition,
  type Extent,
  type HeartbeatRequest,
  type OrderOutcome,
  type Predecessor,
  type RegisterAgentRequest,
  RegisterAgentResponse,
} from "@diskmesh/api/internal";
import type { ExportKind } from "@diskmesh/api/registry";
import {
  type Client,
  createClient,
  DEFAULT_RPC_SERVER_LIMITS,
  type PartialOf,
  RpcServer,
  type TlsFiles,
} from "@diskmesh/rpc";
import { eventually, fakeHandlers, freePort } from "@diskmesh/testkit";

/** A real gRPC server in the role of the registry; the test controls every answer. */
export class TestRegistry {
  readonly registrations: RegisterAgentRequest[] = [];
  readonly heartbeats: HeartbeatRequest[] = [];
  tabletId = "tablet-1";
  incarnation = "incarnation-1";
  tabletGeneration = 1;
  /** Incarnations whose agents it takes over. */
  predecessors: Pick<Predecessor, "tabletId" | "incarnation">[] = [];
  /** Returns the answer to a registration, or throws to refuse it. Allows all devices by default. */
  answer: (request: RegisterAgentRequest) => RegisterAgentResponse | Promise<RegisterAgentResponse> = (request) =>
    this.allow(request);
  /** Throws to refuse a heartbeat. */
  onHeartbeat: () => void = () => {};
  readonly #tls: TlsFiles;
  readonly #generations = new Map<string, number>();
  #server: RpcServer | undefined;
  #deviceGeneration = 0;
  port = 0;

  constructor(tls: TlsFiles) {
    this.#tls = tls;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    this.#server = new RpcServer({ tls: this.#tls, limits: { ...DEFAULT_RPC_SERVER_LIMITS, drainTimeoutMs: 200 } });
    this.#server.addService(AgentRegistrationServiceDefinition, {
      roles: ["disk-agent"],
      handlers: fakeHandlers(AgentRegistrationServiceDefinition, {
        registerAgent: async (request) => {
          this.registrations.push(request);
          return this.answer(request);
        },
        heartbeat: async (request) => {
          this.heartbeats.push(request);
          this.onHeartbeat();
          return { tabletGeneration: this.tabletGeneration, incarnation: this.incarnation };
        },
      }),
    });
    // Keeps its port: a port that the kernel chose could be in use by an outgoing connection at the next start.
    const port = this.port || (await freePort());
    this.port = await this.#server.listen({ host: "127.0.0.1", port });
    this.#server.setServing(true);
  }

  async stop(): Promise<void> {
    await this.#server?.drain();
  }

  allow(request: RegisterAgentRequest, unknown: readonly string[] = []): RegisterAgentResponse {
    const stamped = request.devices.map(({ deviceId }) => {
      const generation = this.#generations.get(deviceId) ?? this.nextGeneration(deviceId);
      return { deviceId, stamp: this.stamp(generation) };
    });
    return RegisterAgentResponse.fromPartial({
      ...this.#life,
      predecessors: this.predecessors,
      allowedDevices: stamped.filter(({ deviceId }) => !unknown.includes(deviceId)),
      unknownDevices: stamped.filter(({ deviceId }) => unknown.includes(deviceId)),
      heartbeatIntervalMs: 100,
    });
  }

  nextGeneration(deviceId: string): number {
    this.#deviceGeneration += 1;
    this.#generations.set(deviceId, this.#deviceGeneration);
    return this.#deviceGeneration;
  }

  stamp(deviceGeneration = 0) {
    return { ...this.#life, deviceGeneration };
  }

  get #life() {
    return { tabletId: this.tabletId, incarnation: this.incarnation, tabletGeneration: this.tabletGeneration };
  }

  /** Changes to another incarnation, whose counters start again, as if another registry had taken over the address. */
  become(life: Partial<Pick<TestRegistry, "tabletId" | "incarnation" | "tabletGeneration" | "predecessors">>): void {
    Object.assign(this, { predecessors: [] }, life);
    this.#generations.clear();
    this.#deviceGeneration = 0;
  }

  async registered(hostId: string, after = 0): Promise<RegisterAgentRequest> {
    return eventually(() => {
      const found = this.registrations.slice(after).findLast((request) => request.hostId === hostId);
      if (!found) throw new Error(`host ${hostId} did not register`);
      return found;
    });
  }
}

type ExtentOrder = PartialOf<typeof Extent>;

/** Returns the key of a session in tests. */
export const keyOf = (sessionNumber: number): Buffer =>
  createHash("sha256").update(`session ${sessionNumber}`).digest();

/** Sends a registry's orders to one agent. */
export class AgentOrders {
  readonly client: Client<typeof DiskAgentServiceDefinition>;
  readonly #registry: TestRegistry;

  constructor(
    registry: TestRegistry,
    readonly hostId: string,
    readonly address: string,
    tls: TlsFiles,
    /** Agent start that the orders are for. */
    readonly bootId: string,
  ) {
    this.#registry = registry;
    this.client = createClient(DiskAgentServiceDefinition, {
      address,
      tls,
      serverRole: "disk-agent",
      serverName: hostId,
      defaultDeadlineMs: 60_000,
    });
  }

  attach(deviceId: string, generation?: number): Promise<OrderOutcome | undefined> {
    return this.#order("attachDevices", deviceId, generation);
  }

  detach(deviceId: string, generation?: number): Promise<OrderOutcome | undefined> {
    return this.#order("detachDevices", deviceId, generation);
  }

  async #order(
    method: "attachDevices" | "detachDevices",
    deviceId: string,
    generation = this.#registry.nextGeneration(deviceId),
  ): Promise<OrderOutcome | undefined> {
    const devices = [{ deviceId, stamp: this.#registry.stamp(generation), expected: undefined }];
    const { outcomes } = await this.client[method]({ bootId: this.bootId, devices });
    return outcomes[0]?.outcome;
  }

  async openSession(
    deviceIds: string[],
    sessionNumber: number,
    diskId: string,
    holderHostId: string,
  ): Promise<(OrderOutcome | undefined)[]> {
    const outcomes = await this.sessionOutcomes(deviceIds, sessionNumber, diskId, holderHostId);
    return outcomes.map(({ outcome }) => outcome);
  }

  /** Opens a session as the registry does, with a key for a holder on another host. Returns the whole outcomes. */
  async sessionOutcomes(
    deviceIds: string[],
    sessionNumber: number,
    diskId: string,
    holderHostId: string,
    sessionKey = keyOf(sessionNumber),
  ): Promise<DeviceOutcome[]> {
    const stamp = this.#registry.stamp();
    const session = { sessionNumber, diskId, holderHostId, deviceIds, sessionKey };
    return (await this.client.openSession({ bootId: this.bootId, stamp, ...session })).outcomes;
  }

  async export(diskId: string, sessionNumber: number, extents: ExtentOrder[]): Promise<string> {
    const stamp = this.#registry.stamp();
    const request = { bootId: this.bootId, stamp, diskId, sessionNumber, blockSizeBytes: 4096, extents };
    return (await this.client.exportDisk(request)).exportPath;
  }

  /** Opens the session on the extents' devices and serves the disk, in one order. */
  exportAtOnce(diskId: string, sessionNumber: number, extents: ExtentOrder[], exportKind?: ExportKind) {
    const openDeviceIds = extents.map(({ deviceId = "" }) => deviceId);
    const stamp = this.#registry.stamp();
    const request = { bootId: this.bootId, stamp, diskId, sessionNumber, blockSizeBytes: 4096, extents };
    return this.client.exportDisk({ ...request, openDeviceIds, ...(exportKind !== undefined && { exportKind }) });
  }

  /** Ends the export. With `openDeviceIds` opens the session without a holder, too; with `drain` unless it is in use. */
  unexport(diskId: string, sessionNumber: number, also: { openDeviceIds?: string[]; drain?: boolean } = {}) {
    const stamp = this.#registry.stamp();
    return this.client.unexportDisk({ bootId: this.bootId, stamp, diskId, sessionNumber, ...also });
  }
}
