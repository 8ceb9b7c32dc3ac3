import { setTimeout as sleep } from "node:timers/promises";
import { ActionCode, type ActionResult, AttachState, type Device, UnknownDiskVerdict } from "@diskmesh/api/registry";
import { DomainError, InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { fillRange, isZero } from "../mesh/device-files.js";
import type { TestMesh } from "../mesh/test-mesh.js";
import type { Random } from "../random.js";
import type { Account, DeviceAccount } from "./account.js";
import type { Truce } from "./truce.js";

const RETRY_MS = 50;
const OUT_FOR_MS = 4_000;
/** Maximum time in ms for a step or for the absence of a process, on a busy machine. */
export const PATIENCE_MS = 180_000;

/** Calls of all hosts' callers, with their answers. */
export class Calls {
  answered = 0;
  /** Number of successful AddHost and AddDevice calls. */
  adds = 0;
  /** Number of successful RemoveHost and RemoveDevice calls. */
  removes = 0;
  /** Number of devices that left after an erase. */
  erased = 0;
  retried = 0;
  #waiting: (() => void)[] = [];

  answer(): void {
    this.answered++;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Resolves with the next answer to any caller. */
  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

const PURGED = { told: "unsettled", purged: true } as const;

/**
 * Automation for one host. Runs one action after another, and repeats each until it is answered, because it cannot know
 * whether an action took effect when the registry was killed.
 */
export class HostCaller {
  /**
   * True after a purge. The registry has then forgotten the devices and, with them, the sessions that an operator
   * decided on after a restore, so the operator decides again.
   */
  #isForgotten = false;

  constructor(
    private readonly mesh: TestMesh,
    private readonly account: Account,
    private readonly hostId: string,
    private readonly random: Random,
    private readonly calls: Calls,
  ) {}

  async run(isOver: () => boolean, truce: Truce): Promise<void> {
    while (!isOver()) {
      await truce.act(() => this.#step(isOver));
      await sleep(this.random.next() * 150);
    }
  }

  /** Runs an action until it is answered. */
  async #step(isOver: () => boolean): Promise<void> {
    const choice = this.random.next();
    if (choice < 0.2) await this.addHost();
    else if (choice < 0.35) await this.removeHost(isOver);
    else if (choice < 0.65) await this.#addDevices();
    else if (choice < 0.93) await this.#removeDevices(isOver);
    else if (choice < 0.98) await this.#purgeDevices();
    else await this.#purgeHost();
  }

  addHost(): Promise<void> {
    const { hostId } = this;
    return this.#add(this.account.of(hostId), () => this.mesh.clients.registry.addHost({ hostId }));
  }

  /**
   * Removes the host. `patient` repeats the call until it succeeds, because a device that is erased first leaves only
   * with a later call.
   */
  removeHost(isOver: () => boolean, patient = this.#isPatient()): Promise<void> {
    const { hostId } = this;
    const call = () => this.mesh.clients.registry.removeHost({ hostId });
    return this.#remove(this.account.of(hostId), call, patient, isOver);
  }

  #addDevices(): Promise<void> {
    const { devices, request } = this.#chosen();
    return this.#add(devices, () => this.mesh.clients.registry.addDevice(request));
  }

  #removeDevices(isOver: () => boolean): Promise<void> {
    const { devices, request } = this.#chosen();
    return this.#remove(devices, () => this.mesh.clients.registry.removeDevice(request), this.#isPatient(), isOver);
  }

  async #purgeDevices(): Promise<void> {
    const { devices, request } = this.#chosen();
    for (const device of devices) Object.assign(device, PURGED);
    const result = await this.#answer(() => this.mesh.clients.registry.purgeDevice(request), devices);
    // Fills the purged devices with data, as another user would. Skips this before a restore, because the restored
    // registry cannot know what was written after the backup.
    if (result?.code === ActionCode.S_OK && !this.account.hasBackup) for (const device of devices) fillRange(device);
  }

  async #purgeHost(): Promise<void> {
    const { hostId } = this;
    const devices = this.account.of(hostId);
    for (const device of devices) Object.assign(device, PURGED);
    this.#isForgotten = true;
    await this.#answer(() => this.mesh.clients.registry.purgeHost({ hostId }), devices);
  }

  /** Returns the selector of an action: one device by id, or all devices on its path. */
  #chosen() {
    const devices = this.account.of(this.hostId);
    const one = this.random.pick(devices);
    if (this.random.next() < 0.5) return { devices: [one], request: { hostId: this.hostId, deviceId: one.deviceId } };
    const onPath = devices.filter((device) => device.path === one.path);
    return { devices: onPath, request: { hostId: this.hostId, path: one.path } };
  }

  async #add(devices: readonly DeviceAccount[], call: Call): Promise<void> {
    const before = new Map(devices.map((device) => [device, device.told]));
    for (const device of devices) device.told = "unsettled";
    // The registry refused the call because the host is being removed, and stored nothing.
    const whenLeaving = () => {
      for (const [device, told] of before) device.told = told;
      return this.#compare(devices);
    };
    const code = (await this.#answer(call, devices, whenLeaving))?.code;
    if (code !== ActionCode.S_OK && code !== ActionCode.S_ALREADY) return;
    this.calls.adds++;
    for (const device of devices) Object.assign(device, { told: "in", leftUnerased: false });
    await this.#compare(devices);
  }

  /** Returns whether to repeat the call until it succeeds. Real callers sometimes stop earlier. */
  #isPatient(): boolean {
    return this.random.next() < 0.7;
  }

  async #remove(devices: readonly DeviceAccount[], call: Call, patient: boolean, isOver: () => boolean): Promise<void> {
    for (const device of devices) device.told = "unsettled";
    for (const untilMs = performance.now() + PATIENCE_MS; ; ) {
      const result = await this.#answer(call, devices);
      const code = result?.code;
      if (result !== undefined && code === ActionCode.S_OK) {
        this.calls.removes++;
        for (const device of devices) device.told = "out";
        const leftUnerased = new Set(devices.filter((device) => device.leftUnerased).map(({ deviceId }) => deviceId));
        for (const device of await this.#compare(devices))
          if (!leftUnerased.has(device.deviceId)) this.#requireErased(device, result.unerasedDeviceIds);
        // Leaves some devices removed for a while, so that agents are killed and started meanwhile.
        if (!isOver() && this.random.next() < 0.5) await sleep(this.random.next() * OUT_FOR_MS);
        return;
      }
      if (code !== ActionCode.E_TRY_AGAIN) return;
      if (this.#isForgotten && result?.message.includes("DecideUnknownDisks")) await this.#decideUnknown();
      for (const device of devices) device.told = "leaving";
      await this.#compare(devices);
      if (!patient || isOver()) return;
      if (performance.now() > untilMs)
        return this.account.violated(
          `${this.hostId}: a removal has not ended for ${PATIENCE_MS} ms: ${result?.message}`,
        );
      await sleep(RETRY_MS);
    }
  }

  async #decideUnknown(): Promise<void> {
    const decided = { hostId: this.hostId, verdict: UnknownDiskVerdict.REGISTRY };
    await persistently(this.calls, () => this.mesh.clients.fleet.decideUnknownDisks(decided));
  }

  /** Requires that a device that left without keep_data contains zeros, by reading its file. */
  #requireErased({ deviceId, attachState, ...place }: Device, unerasedDeviceIds: readonly string[]): void {
    if (attachState !== AttachState.DETACHED) return;
    if (unerasedDeviceIds.includes(deviceId)) this.account.violated(`${deviceId}: left, and is said not to be erased`);
    if (!isZero(place)) this.account.violated(`${deviceId}: left with something on it`);
    this.calls.erased++;
  }

  /** Compares the devices with the registry, and returns them. */
  async #compare(devices: readonly DeviceAccount[]): Promise<readonly Device[]> {
    const seen: Device[] = [];
    for (const account of devices) {
      try {
        const device = await persistently(this.calls, () => this.mesh.device(account.deviceId));
        this.account.compare(account, device);
        seen.push(device);
      } catch (error) {
        if (!(error instanceof NotFoundError)) throw error;
        // The registry need not know a device that was never added.
        if (account.purged) account.told = "unsettled";
        if (account.told === "in") this.account.violated(`${account.deviceId}: was added, and is gone`);
      }
    }
    return seen;
  }

  /**
   * Returns the action's answer; undefined while the host or device is unknown, as after a purge until the agent
   * registers, and for a host that is being removed, where `whenLeaving` is called.
   */
  async #answer(
    call: Call,
    devices: readonly DeviceAccount[],
    whenLeaving?: () => Promise<unknown>,
  ): Promise<ActionResult | undefined> {
    try {
      const { result } = await persistently(this.calls, call);
      this.calls.answer();
      // Reports S_PARTLY as a violation: only this caller acts on the host, so the registry refuses none of its
      // devices.
      if (result?.code !== ActionCode.S_PARTLY) return result;
      this.account.violated(`${this.hostId}: ${result.code}: ${result.message}`);
    } catch (error) {
      this.calls.answer();
      if (error instanceof NotFoundError) this.#requireUnsettled(devices);
      else if (!(error instanceof InvalidStateError)) throw error;
      else if (error.reason === "HOST_BEING_REMOVED" && whenLeaving !== undefined) await whenLeaving();
      else this.account.violated(`${this.hostId}: ${error.message}`);
    }
    return undefined;
  }

  #requireUnsettled(devices: readonly DeviceAccount[]): void {
    for (const device of devices)
      if (device.told !== "unsettled") this.account.violated(`${device.deviceId}: told "${device.told}", then unknown`);
  }
}

/** Repeats a call that fails with a retryable error. */
export async function persistently<T>(calls: Calls, call: () => Promise<T>): Promise<T> {
  for (const untilMs = performance.now() + PATIENCE_MS; ; ) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof DomainError && error.retryable) || performance.now() > untilMs) throw error;
      calls.retried++;
      await sleep(RETRY_MS);
    }
  }
}

type Call = () => Promise<{ result?: ActionResult | undefined }>;
