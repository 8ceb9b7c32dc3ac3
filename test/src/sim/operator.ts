import { ActionCode, type ActionResult, DiskRegistryServiceService } from "@diskmesh/api/registry";
import type { Device, Disk } from "@diskmesh/disk-registry/simulation";
import { messageOf, TimeoutError } from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";
import type { Operation } from "./acknowledged.js";
import { BLOCK_BYTES } from "./machine.js";
import { REGISTRY_ADDRESS } from "./registry-node.js";
import { SimProcess } from "./timeline.js";
import type { World } from "./world.js";

type Registry = Client<typeof DiskRegistryServiceService>;

export const DISK_IDS = ["disk-1", "disk-2", "disk-3"] as const;

/** Infrastructure automation and orchestrators at once: asks for everything, at any time, and remembers what it was told. */
export class Operator {
  readonly #process: SimProcess;
  readonly #registry: Registry;
  readonly #operations = new Map<unknown, Operation>();
  /** Requests that the leader answered. */
  readonly #byLeader = new Set<unknown>();

  constructor(private readonly world: World) {
    this.#process = new SimProcess(world.timeline, "operator", "operator");
    this.#registry = world.network.client(
      DiskRegistryServiceService,
      { process: this.#process, identity: { role: "operator", name: "sim" } },
      REGISTRY_ADDRESS,
      {
        defaultDeadlineMs: 3_000,
        onGone: (request) => {
          this.#operations.get(request)?.gone();
          this.#operations.delete(request);
        },
      },
    );
  }

  /** An answer came. What a registry says that was replaced already is not held against anybody. */
  hear(request: unknown, byLeader: boolean): void {
    if (byLeader) this.#byLeader.add(request);
  }

  /** Asks for something: mostly what makes sense now, sometimes anything. */
  act(): void {
    const { random, store } = this.world;
    const out = [...store.devices()].filter(
      ({ attachState }) => attachState !== "ATTACHED" && attachState !== "ATTACHING",
    );
    if (this.world.isBuilding) this.#build(out);
    else if (random.chance(0.1)) this.#anything();
    // Much must be in operation for much to happen.
    else if (out.length > 0 && random.chance(0.5)) this.#add(random.pick(out));
    else if (random.chance(0.3) || !this.#somethingOfDisk(random.pick(DISK_IDS))) this.#takeOut();
  }

  /** The shortest way to a disk in use. */
  #build(out: readonly Device[]): void {
    const [first] = out;
    if (first !== undefined) this.#add(first);
    else this.#somethingOfDisk(DISK_IDS[0]);
  }

  #add({ hostId, deviceId }: Device): void {
    const request = { dryRun: this.world.random.chance(0.03), hostId };
    if (this.world.random.chance(0.5)) this.#cms("addHost", request);
    else this.#cms("addDevice", { ...request, deviceId, path: "" });
  }

  #takeOut(): void {
    const { random, store } = this.world;
    const hosts = [...store.hosts()];
    if (hosts.length === 0) return;
    // What to do about a host that is not heard from is what operators ask themselves most.
    const silent = hosts.filter((host) => host.state === "UNAVAILABLE");
    const { hostId } = random.pick(silent.length > 0 && random.chance(0.7) ? silent : hosts);
    const request = { dryRun: random.chance(0.03), force: random.chance(0.5), keepData: random.chance(0.3) };
    const leaving = [...store.devices()].filter((device) => device.removalRequested);
    if (leaving.length > 0 && random.chance(0.3)) {
      // As callers do who were told to ask again.
      const { hostId: of, deviceId } = random.pick(leaving);
      this.#cms("removeDevice", { ...request, hostId: of, deviceId, path: "" });
      return;
    }
    const at = random.below(10);
    if (at < 5) this.#cms("removeDevice", { ...request, ...this.#selector(hostId) });
    else if (at < 7) this.#cms("removeHost", { ...request, hostId });
    else if (at < 9) this.#cms("purgeDevice", { ...request, ...this.#selector(hostId) });
    else this.#cms("purgeHost", { ...request, hostId });
  }

  /** Whether there was something to ask for. */
  #somethingOfDisk(diskId: string): boolean {
    const { random, store, isBuilding } = this.world;
    const hosts = [...store.hosts()].map((host) => host.hostId);
    if (hosts.length === 0) return false;
    const local = new Set(store.disk(diskId)?.deviceIds.map((deviceId) => store.device(deviceId)?.hostId));
    const remote = hosts.filter((hostId) => !local.has(hostId));
    const disk = store.disk(diskId);
    if (disk === undefined) {
      const free = [...store.devices()].filter((device) => device.attachState === "ATTACHED" && isIdle(device));
      const [first] = free;
      if (first === undefined) return false;
      const whole = free.reduce((sum, device) => sum + device.sizeBytes, 0);
      this.#createDisk(diskId, random.chance(0.5) ? first.sizeBytes : whole, "");
    } else if (disk.publication?.state === "PUBLISHING" && random.chance(0.8)) return false;
    else if (disk.publication === undefined)
      if (isBuilding || random.chance(0.75))
        this.#publishDisk(diskId, random.pick(remote.length > 0 && random.chance(0.6) ? remote : hosts));
      else this.#deleteDisk(diskId);
    else if (random.chance(0.7)) this.#unpublishDisk(diskId, "");
    else this.#publishDisk(diskId, random.pick(remote.length > 0 && random.chance(0.6) ? remote : hosts));
    return true;
  }

  #anything(): void {
    const { random, hosts } = this.world;
    const hostId = random.pick(hosts);
    const diskId = random.pick(DISK_IDS);
    const request = { dryRun: random.chance(0.05), force: random.chance(0.5) };
    const actions: readonly (() => void)[] = [
      () => this.#cms("addHost", { ...request, hostId }),
      () => this.#cms("removeHost", { ...request, hostId }),
      () => this.#cms("purgeHost", { ...request, hostId }),
      () => this.#cms("addDevice", { ...request, ...this.#selector(hostId) }),
      () => this.#cms("removeDevice", { ...request, ...this.#selector(hostId) }),
      () => this.#cms("purgeDevice", { ...request, ...this.#selector(hostId) }),
      () => this.#createDisk(diskId, BLOCK_BYTES * (1 + random.below(6)), random.chance(0.3) ? hostId : ""),
      () => this.#deleteDisk(diskId),
      () => this.#publishDisk(diskId, hostId),
      () => this.#unpublishDisk(diskId, random.chance(0.3) ? hostId : ""),
    ];
    random.pick(actions)();
  }

  #selector(hostId: string): { hostId: string; deviceId: string; path: string } {
    const { random } = this.world;
    const { deviceId, path } = random.pick(this.world.placesOf(hostId));
    return random.chance(0.3) ? { hostId, deviceId: "", path } : { hostId, deviceId, path: "" };
  }

  #cms(
    method: "addHost" | "removeHost" | "purgeHost" | "addDevice" | "removeDevice" | "purgeDevice",
    request: { hostId: string; deviceId?: string; path?: string; dryRun: boolean; force?: boolean; keepData?: boolean },
  ): void {
    const { hostId } = request;
    const everyDisk = method.startsWith("purge") ? DISK_IDS.map((diskId) => `disk ${diskId}`) : [];
    const operation = this.#begin(request, [`host ${hostId}`, ...everyDisk]);
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
      if (result.code === ActionCode.E_TRY_AGAIN && result.retryAfterMs <= 0)
        this.world.violation(`${method} answered E_TRY_AGAIN without saying when`);
      return `${result.code}: ${result.message}`;
    });
  }

  #servedBy(hostId: string): readonly Disk[] {
    return [...this.world.store.disks()].filter((disk) => disk.publication?.hostId === hostId);
  }

  /** What a host served before it was to be removed, and serves in the same session after the answer, is in the way. */
  #requireServedNamed(hostId: string, before: readonly Disk[], { code, dependentDiskIds }: ActionResult): void {
    if (code !== ActionCode.S_OK && code !== ActionCode.E_TRY_AGAIN) return;
    for (const { diskId, publication } of this.#servedBy(hostId)) {
      const since = before.find((disk) => disk.diskId === diskId)?.publication;
      if (since?.sessionNumber === publication?.sessionNumber && !dependentDiskIds.includes(diskId))
        this.world.violation(`${hostId} is removed while disk ${diskId} is ${publication?.state} there`);
    }
  }

  /** What was out of operation before the request, and still is at the answer, with something on it, is said. */
  #requireNamed(before: readonly Device[], said: readonly string[]): void {
    for (const { deviceId, generation } of before) {
      const now = this.world.store.device(deviceId);
      if (now === undefined || !isOutUnerased(now) || now.generation !== generation || said.includes(deviceId))
        continue;
      this.world.violation(`${deviceId} was removed, is not erased, and the answer does not say so`);
    }
  }

  #namedBy(request: { hostId: string; deviceId?: string; path?: string }): readonly Device[] {
    return [...this.world.store.devices()]
      .filter((device) => device.hostId === request.hostId)
      .filter((device) => !request.deviceId || device.deviceId === request.deviceId)
      .filter((device) => !request.path || device.path === request.path);
  }

  #factsOf(method: string, request: { hostId: string; deviceId?: string; path?: string }) {
    const { store } = this.world;
    const named = this.#namedBy(request)
      // A device that registered after the action was not meant by it.
      .filter((device) => !method.startsWith("add") || device.attachState !== "UNKNOWN")
      .map((device) => device.deviceId);
    const inOperation = method.startsWith("add");
    const facts = named.map((deviceId) => ({
      text: `${method} of ${deviceId} was acknowledged`,
      holds: () => {
        const state = store.device(deviceId)?.attachState;
        return (state === "ATTACHING" || state === "ATTACHED") === inOperation;
      },
    }));
    if (method !== "removeHost") return facts;
    const servesNothing = () => this.#servedBy(request.hostId).length === 0;
    return [...facts, { text: `${request.hostId} was removed, and serves a disk`, holds: servesNothing }];
  }

  #createDisk(diskId: string, sizeBytes: number, hostId: string): void {
    const request = { diskId, sizeBytes, az: "z1", hostId, pool: "", spreadRacks: false, labels: [] };
    const operation = this.#begin(request, [`disk ${diskId}`]);
    this.#run("createDisk", request, async () => {
      const { disk } = await this.#registry.createDisk(request);
      const exists = () => this.world.store.disk(diskId) !== undefined;
      operation.acknowledge([{ text: `disk ${diskId} was created`, holds: exists }]);
      return `devices ${disk?.deviceIds.join(", ")}`;
    });
  }

  #deleteDisk(diskId: string): void {
    const request = { diskId };
    const operation = this.#begin(request, [`disk ${diskId}`]);
    this.#run("deleteDisk", request, async () => {
      await this.#registry.deleteDisk(request);
      const gone = () => this.world.store.disk(diskId) === undefined;
      operation.acknowledge([{ text: `disk ${diskId} was deleted`, holds: gone }]);
      return "deleted";
    });
  }

  #publishDisk(diskId: string, hostId: string): void {
    const request = { diskId, hostId };
    const operation = this.#begin(request, [`disk ${diskId}`]);
    this.#run("publishDisk", request, async () => {
      const { disk } = await this.#registry.publishDisk(request);
      const isThere = () => this.world.store.disk(diskId)?.publication?.hostId === hostId;
      operation.acknowledge([{ text: `disk ${diskId} was published to ${hostId}`, holds: isThere }]);
      return `session ${disk?.publication?.sessionNumber}`;
    });
  }

  #unpublishDisk(diskId: string, hostId: string): void {
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

function isOutUnerased({ attachState, dirty }: Device): boolean {
  return attachState === "DETACHED" && dirty;
}

function isIdle({ diskId, dirty, health }: Device): boolean {
  return diskId === "" && !dirty && health === "ONLINE";
}
