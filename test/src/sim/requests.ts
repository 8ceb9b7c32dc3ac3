import {
  ActionCode,
  type ActionResult,
  DiskRegistryServiceDefinition,
  devicesWithBytes,
  FleetServiceDefinition,
  Health,
  HostState,
  OnHostSilence,
  UnknownDiskVerdict,
} from "@diskmesh/api/registry";
import { type Device, type Disk, isDirty } from "@diskmesh/disk-registry/simulation";
import { messageOf, TimeoutError } from "@diskmesh/domain";
import { type Client, msOfDuration } from "@diskmesh/rpc";
import { isExaggerated } from "./lies.js";
import type { CmsMethod, CmsRequest, MoveMethod, MoveRequest, Operation, Selector, World } from "./parts.js";
import { REGISTRY_ADDRESS } from "./registry-node.js";
import { SimProcess } from "./seed/timeline.js";

type Registry = Client<typeof DiskRegistryServiceDefinition>;

export const DISK_IDS = ["disk-1", "disk-2", "disk-3"] as const;

/** Sends requests to a registry, and checks each answer against the later state. */
export class Requests {
  readonly #process: SimProcess;
  readonly #registry: Registry;
  readonly #fleet: Client<typeof FleetServiceDefinition>;
  readonly #operations = new Map<unknown, Operation>();
  /** Hosts for which a client ever requested to take back DEAD. */
  readonly takenBack = new Set<string>();
  /** Requests that the leader answered. */
  readonly #byLeader = new Set<unknown>();

  constructor(private readonly world: World) {
    this.#process = new SimProcess(world.timeline, "operator", "operator");
    const identity = { role: "operator", name: "sim" } as const;
    const caller = { process: this.#process, identity };
    this.#fleet = world.network.client(FleetServiceDefinition, caller, REGISTRY_ADDRESS, { defaultDeadlineMs: 3_000 });
    this.#registry = world.network.client(DiskRegistryServiceDefinition, caller, REGISTRY_ADDRESS, {
      defaultDeadlineMs: 3_000,
      onGone: (request) => {
        this.#operations.get(request)?.gone();
        this.#operations.delete(request);
      },
    });
  }

  /** Records an answer. Answers of a replaced registry are not checked. */
  hear(request: unknown, byLeader: boolean): void {
    if (byLeader) this.#byLeader.add(request);
  }

  /** Decides about an unknown disk, as an operator who knows which disk the data belongs to. */
  decideUnknown({ deviceId }: Device, verdict: UnknownDiskVerdict): void {
    const request = { verdict, deviceIds: [deviceId] };
    if (verdict === UnknownDiskVerdict.REGISTRY) this.world.lives.decide(deviceId);
    this.#run("decideUnknownDisks", request, async () => {
      const { deviceIds } = await this.#fleet.decideUnknownDisks(request);
      return `decided ${deviceIds.join(", ")}`;
    });
  }

  /** Confirms a device, as an operator who has checked the drive. */
  confirmDevice({ hostId, deviceId }: Device): void {
    const request = { hostId, deviceId };
    this.#run("confirmDevice", request, async () => {
      const { result } = await this.#registry.confirmDevice(request);
      return `${result?.code}: ${result?.message}`;
    });
  }

  /** Has the place adopt the drive that is there, as an operator who knows that it was moved. */
  adoptDevice({ hostId, deviceId = "" }: Selector): void {
    const request = { hostId, deviceId };
    const hosts = this.world.hosts.map((host) => `host ${host}`);
    this.#begin(request, [...hosts, ...DISK_IDS.map((diskId) => `disk ${diskId}`)]);
    this.world.adoptions.ask(deviceId);
    this.#run("adoptDevice", request, async () => {
      const { result } = await this.#registry.adoptDevice(request);
      return `${result?.code}: ${result?.message}`;
    });
  }

  /**
   * Calls RaiseNumbers or AdoptFleet, as an operator who knows which numbers were given and which registry is to lead.
   */
  sayWhoLeads(): void {
    this.#run("getFleet", {}, async () => {
      const { refused, standsStill, others } = await this.#fleet.getFleet({});
      for (const { tabletId, incarnation, adoptTime } of others) {
        if (adoptTime !== undefined || !this.world.rewinds.isAlone) continue;
        const former = { tabletId, incarnation, sessionNumber: 0 };
        this.#run("adoptFleet", former, async () => {
          await this.#fleet.adoptFleet(former);
          return "adopted";
        });
      }
      for (const { reportTime: _, ...numbers } of refused)
        if (!isExaggerated(numbers))
          this.#run("raiseNumbers", numbers, async () => {
            const { tabletGeneration } = await this.#fleet.raiseNumbers(numbers);
            return `goes on as generation ${tabletGeneration}`;
          });
      return standsStill || "it leads";
    });
  }

  cms(method: CmsMethod, request: CmsRequest): void {
    const { hostId } = request;
    const everyDisk = method.startsWith("purge") ? DISK_IDS.map((diskId) => `disk ${diskId}`) : [];
    const operation = this.#begin(request, [`host ${hostId}`, ...everyDisk]);
    if (method.startsWith("purge"))
      for (const { deviceId } of this.#namedBy(request)) this.world.lives.giveUp(deviceId);
    const served = method === "removeHost" ? this.#servedBy(hostId) : [];
    const unerased = method.startsWith("remove") ? this.#namedBy(request).filter(isOutUnerased) : [];
    const call = this.#registry[method] as (request: unknown) => Promise<{ result: ActionResult | undefined }>;
    this.#run(method, request, async () => {
      const { result } = await call(request);
      if (result === undefined) throw new Error("the answer has no result");
      if (request.dryRun) return `${result.code} (dry run)`;
      const done = result.code === ActionCode.S_OK || result.code === ActionCode.S_ALREADY;
      if (done) operation.acknowledge(this.#factsOf(method, request));
      if (this.#byLeader.has(request)) {
        this.#requireServedNamed(hostId, served, result);
        if (done) this.#requireNamed(unerased, result.unerasedDeviceIds);
      }
      if (result.code === ActionCode.E_TRY_AGAIN && msOfDuration(result.retryDelay) <= 0)
        this.world.violation(`${method} answered E_TRY_AGAIN without saying when`);
      return `${result.code}: ${result.message}`;
    });
  }

  #servedBy(hostId: string): readonly Disk[] {
    return [...this.world.store.disks()].filter((disk) => disk.publication?.hostId === hostId);
  }

  /**
   * Requires that a removal names each disk that the host served before, and still serves in the same session after the
   * answer.
   */
  #requireServedNamed(hostId: string, before: readonly Disk[], { code, dependentDiskIds }: ActionResult): void {
    if (code !== ActionCode.S_OK && code !== ActionCode.E_TRY_AGAIN) return;
    for (const { diskId, publication } of this.#servedBy(hostId)) {
      const since = before.find((disk) => disk.diskId === diskId)?.publication;
      if (since?.sessionNumber === publication?.sessionNumber && !dependentDiskIds.includes(diskId))
        this.world.violation(`${hostId} is removed while disk ${diskId} is ${publication?.state} there`);
    }
  }

  /**
   * Requires that the answer names each device with a disk that was out of operation before the request and still is.
   */
  #requireNamed(before: readonly Device[], said: readonly string[]): void {
    for (const { deviceId, generation } of before) {
      const now = this.world.store.device(deviceId);
      if (now === undefined || !isOutUnerased(now) || now.generation !== generation || said.includes(deviceId))
        continue;
      this.world.violation(`${deviceId} was removed, is not erased, and the answer does not say so`);
    }
  }

  #namedBy(request: Selector): readonly Device[] {
    return [...this.world.store.devices()]
      .filter((device) => device.hostId === request.hostId)
      .filter((device) => !request.deviceId || device.deviceId === request.deviceId)
      .filter((device) => !request.path || device.path === request.path);
  }

  #factsOf(method: string, request: Selector) {
    const named = this.#namedBy(request)
      // A device that registered after the action was not affected by it.
      .filter((device) => !method.startsWith("add") || device.attachState !== "UNKNOWN")
      .map((device) => device.deviceId);
    const inOperation = method.startsWith("add");
    const facts = named.map((deviceId) => {
      let gaveWay = false;
      const holds = (): boolean => {
        const state = this.world.store.device(deviceId)?.attachState;
        const isAsAsked = (state === "ATTACHING" || state === "ATTACHED") === inOperation;
        // The device may have yielded to an earlier device on the same bytes, because its identity became known only
        // after the addition. The earlier device may have left since.
        gaveWay = !isAsAsked && (gaveWay || (inOperation && this.world.bytes.isInTheWay(request.hostId, deviceId)));
        return isAsAsked || gaveWay;
      };
      return { text: `${method} of ${deviceId} was acknowledged`, holds };
    });
    if (method !== "removeHost") return facts;
    const servesNothing = () => this.#servedBy(request.hostId).length === 0;
    return [...facts, { text: `${request.hostId} was removed, and serves a disk`, holds: servesNothing }];
  }

  createDisk(diskId: string, sizeBytes: number, hostId: string): void {
    const request = { diskId, sizeBytes, az: "z1", hostId };
    const operation = this.#begin(request, [`disk ${diskId}`]);
    this.#run("createDisk", request, async () => {
      const { disk } = await this.#registry.createDisk(request);
      const exists = () => this.world.store.disk(diskId) !== undefined;
      operation.acknowledge([{ text: `disk ${diskId} was created`, holds: exists }]);
      return `devices ${devicesWithBytes(disk).join(", ")}`;
    });
  }

  resizeDisk(diskId: string, sizeBytes: number): void {
    const request = { diskId, sizeBytes };
    this.#run("resizeDisk", request, async () => {
      const { disk } = await this.#registry.resizeDisk(request);
      return `${disk?.sizeBytes} bytes on ${devicesWithBytes(disk).join(", ")}`;
    });
  }

  deleteDisk(diskId: string): void {
    const request = { diskId };
    const operation = this.#begin(request, [`disk ${diskId}`]);
    this.#run("deleteDisk", request, async () => {
      await this.#registry.deleteDisk(request);
      const gone = () => this.world.store.disk(diskId) === undefined;
      operation.acknowledge([{ text: `disk ${diskId} was deleted`, holds: gone }]);
      return "deleted";
    });
  }

  publishDisk(diskId: string, hostId: string, onHostSilence: OnHostSilence = OnHostSilence.UNSPECIFIED): void {
    const request = { diskId, hostId, onHostSilence };
    const operation = this.#begin(request, [`disk ${diskId}`]);
    this.#run("publishDisk", request, async () => {
      const { disk } = await this.#registry.publishDisk(request);
      // The silence rule of its host may have ended the publication.
      const isThere = () => {
        const disk = this.world.store.disk(diskId);
        return disk?.publication?.hostId === hostId || disk?.fence?.hostId === hostId;
      };
      operation.acknowledge([{ text: `disk ${diskId} was published to ${hostId}`, holds: isThere }]);
      return `session ${disk?.publication?.sessionNumber}`;
    });
  }

  unpublishDisk(diskId: string, hostId: string): void {
    const request = { diskId, hostId };
    const operation = this.#begin(request, [`disk ${diskId}`]);
    this.#run("unpublishDisk", request, async () => {
      await this.#registry.unpublishDisk(request);
      const publication = () => this.world.store.disk(diskId)?.publication;
      const isGone = () => publication() === undefined || (hostId !== "" && publication()?.hostId !== hostId);
      operation.acknowledge([{ text: `disk ${diskId} was unpublished`, holds: isGone }]);
      return "unpublished";
    });
  }

  /** Fences off every disk of a host. */
  fenceHost(hostId: string): void {
    const request = { hostId };
    const [diskId] = DISK_IDS;
    // Acknowledged facts are stored under the first subject of the request.
    const operation = this.#begin(request, [...DISK_IDS.map((id) => `disk ${id}`), `host ${hostId}`]);
    this.#run("fenceHost", request, async () => {
      const { disks } = await this.#registry.fenceHost(request);
      const isElsewhere = () => this.world.store.disk(diskId)?.publication?.hostId !== hostId;
      const fence = disks.find((disk) => disk.diskId === diskId);
      if (fence?.complete)
        operation.acknowledge([{ text: `disk ${diskId} was fenced off ${hostId}`, holds: isElsewhere }]);
      return `fenced off ${disks.filter((disk) => disk.complete).length} of ${disks.length} disks`;
    });
  }

  /** Calls SetHostState for hosts. */
  setHostState(hostIds: readonly string[], state: HostState.DEAD | HostState.ONLINE, fence = false): void {
    const request = { hostIds: [...hostIds], state, reason: "simulated", fence };
    const [first = ""] = hostIds;
    const operation = this.#begin(
      request,
      hostIds.map((hostId) => `host ${hostId}`),
    );
    if (state === HostState.ONLINE) for (const hostId of hostIds) this.takenBack.add(hostId);
    this.#run("setHostState", request, async () => {
      const { changedHostIds } = await this.#registry.setHostState(request);
      const holds = () => (this.world.store.host(first)?.state === "DEAD") === (state === HostState.DEAD);
      operation.acknowledge([{ text: `${state} was said of ${first}`, holds }]);
      return `changed ${changedHostIds.join(", ")}`;
    });
  }

  /** Calls SetDeviceState for repaired drives. */
  setDeviceState(deviceIds: readonly string[]): void {
    const request = { deviceIds: [...deviceIds], health: Health.ONLINE, reason: "simulated" };
    this.#run("setDeviceState", request, async () => {
      const { changedDeviceIds } = await this.#registry.setDeviceState(request);
      return `changed ${changedDeviceIds.join(", ")}`;
    });
  }

  /** Has a disk move, or ends its moves. */
  move(method: MoveMethod, request: MoveRequest): void {
    this.#run(method, request, async () => {
      const call = this.#registry[method] as (request: unknown) => Promise<{ disk: { parts: readonly unknown[] } }>;
      return `parts ${JSON.stringify((await call(request)).disk.parts)}`;
    });
  }

  #begin(request: unknown, scopes: readonly string[]): Operation {
    const operation = this.world.acknowledged.begin(scopes);
    this.#operations.set(request, operation);
    return {
      gone: operation.gone,
      acknowledge: (facts) => {
        if (this.#byLeader.has(request)) operation.acknowledge(facts);
      },
    };
  }

  #run(method: string, request: object, call: () => Promise<string>): void {
    this.world.trace(`operator: ${method} ${JSON.stringify(request)}`);
    void call().then(
      (said) => this.world.trace(`operator: ${method} said ${said}`),
      (error: unknown) => {
        const text = error instanceof TimeoutError ? "time is up" : messageOf(error);
        this.world.trace(`operator: ${method} failed: ${text}`);
      },
    );
  }
}

function isOutUnerased(device: Device): boolean {
  return device.attachState === "DETACHED" && isDirty(device);
}
