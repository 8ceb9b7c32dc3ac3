import { UnknownDiskVerdict } from "@diskmesh/api/registry";
import { countingDevices, type Device, holdsAnyDisk, spacesOf } from "@diskmesh/disk-registry/simulation";
import { BLOCK_BYTES } from "./machine.js";
import type { Plan, Selector, World } from "./parts.js";
import { DISK_IDS } from "./requests.js";

/** Acts as infrastructure automation and orchestrator: may request anything at any time. */
export class Operator {
  readonly #plan: Plan | undefined;

  constructor(private readonly world: World) {
    this.#plan = world.scenario?.plan?.(world);
  }

  /** Makes one request: the next of the scenario's plan, mostly a useful one, or sometimes any. */
  act(): void {
    const { random, store } = this.world;
    if (this.world.rewinds.epoch > 0 && random.chance(0.1)) return void this.sayWhoIsRight();
    if (this.#failed().length > 0 && random.chance(0.3)) return void this.seeToDrives();
    if (this.#replaced().length > 0 && random.chance(0.2)) return void this.#lookAt(random.pick(this.#replaced()));
    if (this.#plan !== undefined && random.chance(0.98)) return void this.#plan.next();
    const out = [...store.devices()].filter(
      ({ attachState }) => attachState !== "ATTACHED" && attachState !== "ATTACHING",
    );
    if (this.world.isBuilding) this.#build(out);
    else if (random.chance(0.1)) this.#anything();
    // Prefers additions, because most faults need devices in operation.
    else if (out.length > 0 && random.chance(0.5)) this.#add(random.pick(out));
    else if (random.chance(0.3) || !this.#somethingOfDisk(random.pick(DISK_IDS))) this.#takeOut();
  }

  #failed(): readonly string[] {
    const failed = [...this.world.store.devices()].filter((device) => device.keptHealth?.hardwareError !== undefined);
    return failed.map(({ deviceId }) => deviceId);
  }

  #replaced(): readonly Device[] {
    return [...this.world.store.devices()].filter((device) => device.replacement !== undefined);
  }

  /** Confirms or accepts the drive that was found in the device's place, or undoes a swap of drives. */
  #lookAt(device: Device): void {
    const { random, bytes, requests } = this.world;
    const { hostId, deviceId } = device;
    const node = this.world.agentOf(hostId);
    if (bytes.isOwnDrive(hostId, deviceId)) requests.confirmDevice(device);
    else if (!bytes.isOthersDrive(hostId, deviceId))
      requests.cms("addDevice", { hostId, deviceId, acceptUnidentified: true });
    else if (node?.machine.ownPaths().length === 1) requests.adoptDevice(device);
    else if (node?.process.alive && random.chance(0.5)) {
      this.world.endAgent(node, true);
      node.machine.exchange("/dev/a", "/dev/b");
    }
  }

  /** Repairs all failed drives. */
  seeToDrives(): void {
    const failed = this.#failed();
    if (failed.length > 0) this.world.requests.setDeviceState(failed);
  }

  /** Makes a decision that a rewind leaves to an operator. */
  sayWhoIsRight(): void {
    const { random, requests, lives, store } = this.world;
    const unknown = [...store.devices()].filter((device) => device.unknownSession !== undefined);
    if (unknown.length === 0 || random.chance(0.3)) return void requests.sayWhoLeads();
    const device = random.pick(unknown);
    // The agent is right about a device without a disk at most when a part of a disk has moved to it.
    const isRegistrys = !holdsAnyDisk(device) ? random.chance(0.7) : lives.isRight(device);
    requests.decideUnknown(device, isRegistrys ? UnknownDiskVerdict.REGISTRY : UnknownDiskVerdict.AGENT);
  }

  /** Makes the requests that lead to a disk in use most quickly. */
  #build(out: readonly Device[]): void {
    const [first] = out;
    if (first !== undefined) this.#add(first);
    else this.#somethingOfDisk(DISK_IDS[0]);
  }

  #add({ hostId, deviceId }: Device): void {
    const request = { dryRun: this.world.random.chance(0.03), hostId };
    if (this.world.random.chance(0.5)) this.world.requests.cms("addHost", request);
    else this.world.requests.cms("addDevice", { ...request, deviceId, acceptUnidentified: true });
  }

  #takeOut(): void {
    const { random, store } = this.world;
    const hosts = [...store.hosts()];
    if (hosts.length === 0) return;
    // Prefers hosts that do not answer.
    const silent = hosts.filter((host) => host.state === "UNAVAILABLE");
    const { hostId } = random.pick(silent.length > 0 && random.chance(0.7) ? silent : hosts);
    const request = { dryRun: random.chance(0.03), force: random.chance(0.5), keepData: random.chance(0.3) };
    const leaving = [...store.devices()].filter((device) => device.removalRequested);
    if (leaving.length > 0 && random.chance(0.3)) {
      // Repeats a removal that answered E_TRY_AGAIN.
      const { hostId: of, deviceId } = random.pick(leaving);
      this.world.requests.cms("removeDevice", { ...request, hostId: of, deviceId });
      return;
    }
    const at = random.below(10);
    if (at < 5) this.world.requests.cms("removeDevice", { ...request, ...this.#selector(hostId) });
    else if (at < 7) this.world.requests.cms("removeHost", { ...request, hostId });
    else if (at < 9) this.world.requests.cms("purgeDevice", { ...request, ...this.#selector(hostId) });
    else this.world.requests.cms("purgeHost", { ...request, hostId });
  }

  /** Makes a request about the disk. Returns false when no request applies. */
  #somethingOfDisk(diskId: string): boolean {
    const { random, store, isBuilding } = this.world;
    const hosts = [...store.hosts()].map((host) => host.hostId);
    if (hosts.length === 0) return false;
    const disk = store.disk(diskId);
    const local = new Set((disk ? countingDevices(disk) : []).map((deviceId) => store.device(deviceId)?.hostId));
    const remote = hosts.filter((hostId) => !local.has(hostId));
    if (disk === undefined) {
      const free = [...store.devices()].filter((device) => device.attachState === "ATTACHED" && isIdle(device));
      const [first] = free;
      if (first === undefined) return false;
      const whole = free.reduce((sum, device) => sum + freeBytesOf(device), 0);
      const [{ sizeBytes = 0, slices } = {}] = spacesOf(first);
      // The other half of the slices is left to another disk.
      const bytesOfOne = slices === undefined ? sizeBytes : sizeBytes / 2;
      this.world.requests.createDisk(diskId, random.chance(0.5) ? bytesOfOne : whole, "");
    } else if (disk.publication?.state === "PUBLISHING" && random.chance(0.8)) return false;
    else if (disk.publication === undefined)
      if (isBuilding || random.chance(0.75))
        this.world.requests.publishDisk(diskId, random.pick(remote.length > 0 && random.chance(0.6) ? remote : hosts));
      else this.world.requests.deleteDisk(diskId);
    else if (random.chance(0.7)) this.world.requests.unpublishDisk(diskId, "");
    else this.world.requests.publishDisk(diskId, random.pick(remote.length > 0 && random.chance(0.6) ? remote : hosts));
    return true;
  }

  #anything(): void {
    const { random, hosts } = this.world;
    const hostId = random.pick(hosts);
    const diskId = random.pick(DISK_IDS);
    const request = { dryRun: random.chance(0.05), force: random.chance(0.5) };
    const actions: readonly (() => void)[] = [
      () => this.world.requests.cms("addHost", { ...request, hostId }),
      () => this.world.requests.cms("removeHost", { ...request, hostId }),
      () => this.world.requests.cms("purgeHost", { ...request, hostId }),
      () => this.world.requests.cms("addDevice", { ...request, ...this.#selector(hostId) }),
      () => this.world.requests.cms("removeDevice", { ...request, ...this.#selector(hostId) }),
      () => this.world.requests.cms("purgeDevice", { ...request, ...this.#selector(hostId) }),
      () =>
        this.world.requests.createDisk(diskId, BLOCK_BYTES * (1 + random.below(6)), random.chance(0.3) ? hostId : ""),
      () => this.world.requests.deleteDisk(diskId),
      () => this.world.requests.publishDisk(diskId, hostId),
      () => this.world.requests.unpublishDisk(diskId, random.chance(0.3) ? hostId : ""),
    ];
    random.pick(actions)();
  }

  #selector(hostId: string): Selector {
    const { random } = this.world;
    const { deviceId, path } = random.pick(this.world.placesOf(hostId));
    return random.chance(0.3) ? { hostId, path } : { hostId, deviceId };
  }
}

/** Returns whether the device has free bytes. */
export function isIdle(device: Device): boolean {
  return device.health === "ONLINE" && spacesOf(device).length > 0;
}

/** Returns the bytes of the device that disks may take. */
export function freeBytesOf(device: Device): number {
  return spacesOf(device).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}
