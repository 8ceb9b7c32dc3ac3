import {
  AgentRegistrationServiceDefinition,
  type AttachDevicesRequest,
  type CloseSessionRequest,
  type CopyDeviceRequest,
  type DetachDevicesRequest,
  DiskAgentServiceDefinition,
  type EraseDeviceRequest,
  type ExportDiskRequest,
  type Extent,
  type GetMirrorRequest,
  type GetMirrorResponse,
  type HeartbeatRequest,
  MirrorState,
  type OpenSessionRequest,
  OrderOutcome,
  type RegisterAgentRequest,
  type RegisterAgentResponse,
  type RememberedRun,
  ReportedDevice,
  type Run,
  type UnexportDiskRequest,
} from "@diskmesh/api/internal";
import { compareStamps, OutdatedError, type Stamp, UnavailableError } from "@diskmesh/domain";
import { type Client, createClient, DEFAULT_RPC_SERVER_LIMITS, RpcServer, type TlsFiles } from "@diskmesh/rpc";
import { fakeHandlers, freePort } from "@diskmesh/testkit";

type Kind = "attach" | "detach";
type OrderRequest = AttachDevicesRequest | DetachDevicesRequest;

export interface TestAgentOptions {
  readonly hostId: string;
  readonly tls: TlsFiles;
  readonly registryAddress: string | readonly string[];
  readonly deviceIds: readonly string[];
  readonly az?: string;
}

/**
 * A disk agent that speaks the real protocol over real connections, with device files in memory only. It follows the
 * rules of stamps and sessions, and tests can make it misbehave.
 */
export class TestAgent {
  readonly #options: TestAgentOptions;
  #server: RpcServer | undefined;
  #registration: Client<typeof AgentRegistrationServiceDefinition> | undefined;
  #heartbeats: NodeJS.Timeout | undefined;
  #boots = 0;
  port = 0;
  bootId = "";
  /** Last obeyed order by device. Survives a restart like the real agent's cache. */
  readonly orders = new Map<string, { stamp: Stamp; kind: Kind }>();
  readonly sessions = new Map<string, { sessionNumber: number; holderHostId: string; diskId?: string }>();
  /** Answers to ListRuns, by device. */
  readonly runs = new Map<string, readonly RememberedRun[]>();
  /** Awaited before an answer to ListRuns. */
  beforeListRuns: () => Promise<unknown> = async () => {};
  readonly exports = new Map<string, number>();
  /** Keys in hex of the last session that each device was opened for; empty without one. */
  readonly sessionKeys = new Map<string, string>();
  /** Addresses and keys in hex with which the last export reaches each device. */
  readonly extents = new Map<string, { readonly blockAddress: string; readonly sessionKey: string }>();
  readonly held = new Set<string>();
  /** All received orders, in order. */
  readonly received: { kind: Kind; deviceIds: string[]; generations: number[]; tabletGeneration: number }[] = [];
  /** Called before an order is obeyed; may throw, wait, or return another answer. */
  before: (kind: Kind, request: OrderRequest) => Promise<OrderOutcome | undefined> = async () => undefined;
  beforeErase: (request: EraseDeviceRequest) => Promise<OrderOutcome | undefined> = async () => undefined;
  erasedBytes = 0;
  /** Answer to the end of a session. */
  closing: OrderOutcome = OrderOutcome.DONE;
  /** Outcome of orders about labels. */
  labelling: OrderOutcome = OrderOutcome.DONE;
  /** Sessions and labels of these orders. */
  readonly labelled: string[] = [];
  /** Values of the PENDING outcomes that a test asks for. An outcome of a session has them for each device. */
  waiting = { message: "", pendingMs: 0, inFlightOperations: 0 };
  sessionsArePending = false;
  beforeExport: (request: ExportDiskRequest) => Promise<void> = async () => {};
  beforeUnexport: (request: UnexportDiskRequest) => Promise<void> = async () => {};
  /** Rate of the last request about a copy or mirror. */
  bytesPerSecond = 0;
  /** Token of the last order to copy. */
  resumeToken = "";
  /** Answer to copies. */
  copying: { outcome: OrderOutcome; copiedBytes: number; resumeToken?: string } = {
    outcome: OrderOutcome.DONE,
    copiedBytes: 0,
  };
  /** Answer to questions about a mirror. */
  mirror: Partial<GetMirrorResponse> = { state: MirrorState.EQUAL };
  /** Called before a question about a mirror is answered. */
  beforeMirror: () => Promise<void> = async () => {};
  /** True behaves like agents of former releases, which ignore open_device_ids. */
  opensNothingAlong = false;
  /** Received session and export requests in order, as text, with the devices to open. */
  readonly told: string[] = [];
  /** Records of runs in the order of their requests, as text. */
  readonly recorded: string[] = [];
  /** Layouts of the exports in the order of their requests. */
  readonly served: string[] = [];
  /** Registry that the agent obeys; empty before it registers. */
  obeys = { tabletId: "", incarnation: "" };
  /** Hook by which a test changes the report of a device. */
  report: (device: ReportedDevice) => ReportedDevice = (device) => device;

  constructor(options: TestAgentOptions) {
    this.#options = options;
    for (const deviceId of options.deviceIds) this.held.add(deviceId);
  }

  /** Simulates a restart: a new boot id, and no exports. */
  async start(): Promise<void> {
    this.bootId = `${this.#options.hostId}-boot-${++this.#boots}`;
    this.exports.clear();
    const server = new RpcServer({ tls: this.#options.tls, limits: DEFAULT_RPC_SERVER_LIMITS });
    server.addService(DiskAgentServiceDefinition, {
      roles: ["disk-registry"],
      handlers: fakeHandlers(DiskAgentServiceDefinition, {
        attachDevices: (request) => this.#obey("attach", request),
        detachDevices: (request) => this.#obey("detach", request),
        openSession: (request) => this.#openSession(request),
        eraseDevice: (request) => this.#erase(request),
        copyDevice: (request) => this.#copy(request),
        getMirror: (request) => this.#getMirror(request),
        exportDisk: (request) => this.#export(request),
        unexportDisk: (request) => this.#unexport(request),
        closeSession: (request) => this.#close(request),
        writeLabel: async ({ bootId, deviceId, stamp, sizeBytes, label, sessionNumber }) => {
          this.told.push(`${label ? "label" : "remove the label of"} ${deviceId}`);
          this.labelled.push(`${deviceId} ${sessionNumber} ${label?.labelId}`);
          this.#requireBoot(bootId);
          const outcome = { deviceId, sizeBytes, stamp, message: "", outcome: this.labelling };
          return { outcome, label };
        },
        listRuns: async ({ deviceId, fromOffsetBytes }) => {
          await this.beforeListRuns();
          // Pages of one run.
          const [run, next] = (this.runs.get(deviceId) ?? []).filter((each) => each.offsetBytes >= fromOffsetBytes);
          return { bootId: this.bootId, runs: run ? [run] : [], nextOffsetBytes: next?.offsetBytes ?? 0, floor: 0 };
        },
        listDevices: async () => ({ bootId: this.bootId, ...this.remembered }),
      }),
    });
    // Keeps its port over a restart, as a real agent does. A freshly chosen port could be taken by another process.
    const port = this.port || (await freePort());
    this.port = await server.listen({ host: "127.0.0.1", port });
    server.setServing(true);
    this.#server = server;
    this.#registration = createClient(AgentRegistrationServiceDefinition, {
      address: this.#options.registryAddress,
      tls: this.#options.tls,
      serverRole: "disk-registry",
      defaultDeadlineMs: 60_000,
    });
  }

  /** Numbers as a real agent reports them; a test overrides them to simulate another registry's orders. */
  get remembered() {
    const stamps = [...this.orders.values()].map(({ stamp }) => stamp);
    const sessions = [...this.sessions.values()].map(({ sessionNumber }) => sessionNumber);
    return {
      tabletId: this.obeys.tabletId,
      incarnation: this.obeys.incarnation,
      highestTabletGeneration: Math.max(0, ...stamps.map(({ tabletGeneration }) => tabletGeneration)),
      highestDeviceGeneration: Math.max(0, ...stamps.map(({ deviceGeneration }) => deviceGeneration)),
      highestSessionNumber: Math.max(0, ...sessions, ...this.exports.values()),
    };
  }

  async register(change: Partial<RegisterAgentRequest> = {}): Promise<RegisterAgentResponse> {
    const { hostId, az = "z1", deviceIds } = this.#options;
    const answer = await this.#client().registerAgent({
      hostId,
      address: `127.0.0.1:${this.port}`,
      az,
      rack: "r1",
      bootId: this.bootId,
      devices: deviceIds.map((deviceId) => this.#reported(deviceId)),
      exports: [...this.exports].map(([diskId, sessionNumber]) => ({ diskId, sessionNumber })),
      ...this.remembered,
      ...change,
    });
    // Stamps of another incarnation are not comparable, so the remembered orders are dropped.
    if (answer.incarnation !== this.obeys.incarnation) this.orders.clear();
    this.obeys = { tabletId: answer.tabletId, incarnation: answer.incarnation };
    for (const { deviceId, stamp } of answer.allowedDevices) if (stamp) this.#note(deviceId, stamp, "attach");
    for (const { deviceId, stamp } of answer.unknownDevices) if (stamp) this.#note(deviceId, stamp, "detach");
    return answer;
  }

  heartbeat(hostId = this.#options.hostId, bootId = this.bootId, change: Partial<HeartbeatRequest> = {}) {
    return this.#client().heartbeat({ hostId, bootId, ...this.remembered, ...change });
  }

  startHeartbeats(everyMs: number): void {
    this.#heartbeats = setInterval(() => void this.heartbeat().catch(() => {}), everyMs);
  }

  stopHeartbeats(): void {
    clearInterval(this.#heartbeats);
  }

  async stop(): Promise<void> {
    this.stopHeartbeats();
    this.#registration?.close();
    await this.#server?.drain();
    this.#server = undefined;
  }

  #client(): Client<typeof AgentRegistrationServiceDefinition> {
    if (this.#registration === undefined) throw new Error("the agent was not started");
    return this.#registration;
  }

  #reported(deviceId: string): ReportedDevice {
    const session = this.sessions.get(deviceId);
    return this.report(
      ReportedDevice.fromPartial({
        deviceId,
        path: `/dev/${deviceId}`,
        sizeBytes: 64 * 1024 * 1024,
        blockSizeBytes: 4096,
        health: "HEALTH_ONLINE",
        attached: this.held.has(deviceId),
        stamp: this.orders.get(deviceId)?.stamp,
        sessionNumber: session?.sessionNumber,
        sessionDiskId: session?.diskId,
      }),
    );
  }

  #requireBoot(bootId: string): void {
    if (bootId !== this.bootId) throw new OutdatedError(`start ${bootId} is over, this is ${this.bootId}`);
  }

  async #obey(kind: Kind, request: OrderRequest) {
    this.received.push({
      kind,
      deviceIds: request.devices.map((device) => device.deviceId),
      generations: request.devices.map((device) => device.stamp?.deviceGeneration ?? 0),
      tabletGeneration: request.devices[0]?.stamp?.tabletGeneration ?? 0,
    });
    const instead = await this.before(kind, request);
    this.#requireBoot(request.bootId);
    return {
      outcomes: request.devices.map(({ deviceId, stamp }) => ({
        deviceId,
        stamp,
        message: instead ? "as told by the test" : "",
        ...(instead === OrderOutcome.PENDING && this.waiting),
        outcome: instead ?? (stamp ? this.#note(deviceId, stamp, kind) : OrderOutcome.OUTDATED),
      })),
    };
  }

  #note(deviceId: string, stamp: Stamp, kind: Kind): OrderOutcome {
    if (!this.#options.deviceIds.includes(deviceId)) return OrderOutcome.UNKNOWN_DEVICE;
    const last = this.orders.get(deviceId);
    const difference = last === undefined ? 1 : compareStamps(stamp, last.stamp);
    if (difference < 0 || (difference === 0 && last?.kind !== kind)) return OrderOutcome.OUTDATED;
    this.orders.set(deviceId, { stamp, kind });
    const already = this.held.has(deviceId) === (kind === "attach");
    if (kind === "attach") this.held.add(deviceId);
    else this.held.delete(deviceId);
    return already ? OrderOutcome.ALREADY : OrderOutcome.DONE;
  }

  async #openSession(request: OpenSessionRequest) {
    this.told.push(`open ${namesOf(request.deviceIds, request.runs)}`);
    return this.#open(request);
  }

  async #open(request: OpenSessionRequest) {
    this.#requireBoot(request.bootId);
    const { stamp, sessionNumber, holderHostId, diskId } = request;
    const whole = request.deviceIds.map((deviceId) => ({ deviceId, offsetBytes: 0, sizeBytes: 0 }));
    const runs = [...whole, ...request.runs];
    for (const { deviceId, record } of request.runs)
      if (record !== undefined) {
        const { parts, partCount, layout, clean } = record;
        const indexes = parts.map(({ index }) => index).join(" and ") || "no part";
        const what = `${diskId} on ${deviceId}: ${indexes} of ${partCount}, layout ${layout}`;
        this.recorded.push(`${what}${clean ? ", clean" : ""}${holderHostId === "" ? ", without holder" : ""}`);
      }
    for (const { deviceId } of runs) this.sessionKeys.set(deviceId, hexOf(request.sessionKey));
    const isElsewhere = holderHostId !== "" && holderHostId !== this.#options.hostId;
    return {
      outcomes: runs.map(({ deviceId, ...range }) => ({
        deviceId,
        ...range,
        stamp,
        blockAddress: isElsewhere ? `${this.#options.hostId}:7041` : "",
        ...(this.sessionsArePending && this.waiting),
        outcome: this.sessionsArePending
          ? OrderOutcome.PENDING
          : this.#grant(deviceId, { sessionNumber, holderHostId, diskId }),
      })),
    };
  }

  #grant(deviceId: string, session: { sessionNumber: number; holderHostId: string; diskId?: string }): OrderOutcome {
    const { sessionNumber } = session;
    const current = this.sessions.get(deviceId)?.sessionNumber ?? 0;
    if (sessionNumber < current) return OrderOutcome.OUTDATED;
    this.sessions.set(deviceId, session);
    return sessionNumber === current ? OrderOutcome.ALREADY : OrderOutcome.DONE;
  }

  async #erase(request: EraseDeviceRequest) {
    const instead = await this.beforeErase(request);
    this.#requireBoot(request.bootId);
    const { deviceId, stamp, sessionNumber, offsetBytes, sizeBytes } = request;
    const granted = this.#grant(deviceId, { sessionNumber, holderHostId: "" });
    const outcome = instead ?? (granted === OrderOutcome.OUTDATED ? granted : OrderOutcome.DONE);
    const waiting = outcome === OrderOutcome.PENDING && this.waiting;
    const run = { deviceId, offsetBytes, sizeBytes };
    return { outcome: { ...run, stamp, message: "", ...waiting, outcome }, erasedBytes: this.erasedBytes };
  }

  async #close({ bootId, deviceIds, runs, stamp }: CloseSessionRequest) {
    this.told.push(`close ${namesOf(deviceIds, runs)}`);
    this.#requireBoot(bootId);
    const closed = [...deviceIds, ...runs.map(({ deviceId }) => deviceId)];
    return { outcomes: closed.map((deviceId) => ({ deviceId, stamp, outcome: this.closing })) };
  }

  async #copy(request: CopyDeviceRequest) {
    const { bootId, deviceId, offsetBytes, stamp, source, sessionNumber, bytesPerSecond } = request;
    this.bytesPerSecond = bytesPerSecond;
    this.told.push(`copy ${source?.deviceId} to ${deviceId}`);
    this.#requireBoot(bootId);
    const isOpen = this.sessions.get(deviceId)?.sessionNumber === sessionNumber;
    const { copiedBytes, outcome, resumeToken = "" } = this.copying;
    this.resumeToken = request.resumeToken;
    return {
      outcome: { deviceId, offsetBytes, stamp, message: "", outcome: isOpen ? outcome : OrderOutcome.OUTDATED },
      copiedBytes,
      resumeToken,
    };
  }

  async #getMirror({ bootId, diskId, sessionNumber, bytesPerSecond }: GetMirrorRequest) {
    this.bytesPerSecond = bytesPerSecond;
    this.#requireBoot(bootId);
    await this.beforeMirror();
    if (this.exports.get(diskId) !== sessionNumber) throw new OutdatedError(`disk ${diskId} is not served`);
    return this.mirror;
  }

  async #export(request: ExportDiskRequest) {
    const extents = request.extents.map(({ deviceId, target }) =>
      target ? `${deviceId} and ${target.deviceId}` : deviceId,
    );
    this.told.push(`export ${request.diskId}, open ${namesOf(request.openDeviceIds, request.openRuns)}`);
    this.served.push(`${request.diskId} on ${extents}`);
    await this.beforeExport(request);
    this.#requireBoot(request.bootId);
    const { outcomes } = await this.#openAlong(request, this.#options.hostId);
    if (outcomes.some(({ outcome }) => outcome !== OrderOutcome.DONE && outcome !== OrderOutcome.ALREADY))
      return { exportPath: "", outcomes };
    const own = request.extents.filter(({ hostId }) => hostId === this.#options.hostId);
    const isOpen = ({ deviceId, sessionNumber }: Extent) =>
      this.sessions.get(deviceId)?.sessionNumber === (sessionNumber || request.sessionNumber);
    if (!own.every(isOpen)) throw new UnavailableError(`session ${request.sessionNumber} was not opened here`);
    this.exports.set(request.diskId, request.sessionNumber);
    // A change of limits keeps addresses and keys.
    for (const { deviceId, blockAddress, sessionKey } of request.extents)
      if (request.revision === 0 || blockAddress !== "")
        this.extents.set(deviceId, { blockAddress, sessionKey: hexOf(sessionKey) });
    return { exportPath: `/run/${request.diskId}.sock`, fixedSize: false, outcomes };
  }

  async #unexport(request: UnexportDiskRequest) {
    this.told.push(`unexport ${request.diskId}, open ${namesOf(request.openDeviceIds, request.openRuns)}`);
    await this.beforeUnexport(request);
    this.#requireBoot(request.bootId);
    if ((this.exports.get(request.diskId) ?? Number.POSITIVE_INFINITY) <= request.sessionNumber) {
      this.exports.delete(request.diskId);
    }
    return this.#openAlong(request, "");
  }

  /** Opens or ends the sessions of the devices in `open_device_ids`. */
  async #openAlong(request: ExportDiskRequest | UnexportDiskRequest, holderHostId: string) {
    const { openDeviceIds: deviceIds, openRuns: runs, bootId, stamp, sessionNumber, diskId } = request;
    if (this.opensNothingAlong) return { outcomes: [] };
    const sessionKey = Buffer.alloc(0);
    return this.#open({
      bootId,
      stamp,
      sessionNumber,
      diskId,
      holderHostId,
      deviceIds,
      runs,
      sessionKey,
      formerSessionNumber: 0,
    });
  }
}

/** Returns the devices, and the others with ranges in KiB. */
function namesOf(deviceIds: readonly string[], runs: readonly Run[]): string {
  const ranges = runs.map((run) => `${run.deviceId} ${run.offsetBytes / 1_024}+${run.sizeBytes / 1_024}`);
  return [...deviceIds, ...ranges].join(",");
}

const hexOf = (key: Uint8Array): string => Buffer.from(key).toString("hex");
