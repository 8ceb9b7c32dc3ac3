import { type DeviceId, messageOf, NotFoundError } from "@diskmesh/domain";
import { Changes } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import { DeviceFile, type FileUser } from "../files/device-file.js";
import { HeldFiles } from "../files/held-files.js";
import type { FileOpener } from "../files/open-file.js";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import type { HeldBytes } from "../model/held-bytes.js";
import type { MappedRole } from "../model/mapped-devices.js";
import { isWanted } from "../model/memory.js";
import { Device } from "./device.js";
import type { DeviceOptions } from "./device-options.js";
import type { DeviceConfig } from "./device-place.js";
import { HardwareErrors } from "./hardware-errors.js";

export interface DeviceTableOptions extends Omit<DeviceOptions, "hardwareErrors" | "changes"> {
  readonly devices: readonly DeviceConfig[];
  readonly opener: FileOpener;
  /** Answer timeout of an order. */
  readonly answerTimeoutMs: number;
}

/** All devices of the agent, configured or discovered. */
export class DeviceTable {
  /** Signalled on every change of a device, file or I/O; waiters re-check their condition. */
  readonly changes = new Changes<void>();
  readonly hardwareErrors: HardwareErrors;
  readonly #devices = new Map<DeviceId, Device>();
  readonly #files = new Map<string, DeviceFile>();
  readonly #options: DeviceTableOptions;
  readonly #ledger: Ledger;
  readonly #heldBytes = new Map<string, HeldBytes<FileUser>>();
  readonly #opener: HeldFiles;
  #started = false;

  constructor(options: DeviceTableOptions) {
    this.#options = options;
    this.#ledger = options.ledger;
    this.hardwareErrors = new HardwareErrors(options.ledger, options.clock);
    this.#opener = new HeldFiles(options.opener);
    for (const config of options.devices) this.#make(config);
  }

  #make(config: DeviceConfig): Device {
    const known = { ...this.#options, hardwareErrors: this.hardwareErrors, changes: this.changes };
    const { path } = config;
    const file =
      this.#files.get(path) ?? new DeviceFile({ ...known, path, opener: this.#opener, heldBytes: this.#heldBytes });
    this.#files.set(path, file);
    const device = new Device(config, file, known);
    this.#devices.set(config.deviceId, device);
    return device;
  }

  /**
   * Adds a discovered device. A device that is discovered before the start is opened like a configured one. A later one
   * is opened only if it was ordered attached before; otherwise the registry decides at the next registration.
   */
  add(config: DeviceConfig): void {
    const device = this.#make(config);
    if (!this.#started) return;
    device.granted.grantAll(this.#ledger.memory.devices.get(device.id)?.sessions ?? []);
    if (this.#ledger.memory.devices.get(device.id)?.order?.kind === "attach") device.attach();
  }

  /**
   * Gives released devices other paths, and opens again those that are wanted. Each path is one that another of them has
   * left, and a file that is not the device's is refused as at any path.
   */
  move(paths: ReadonlyMap<DeviceId, string>): void {
    for (const [deviceId, path] of paths) {
      const device = this.get(deviceId);
      const [former, next] = [device.file, this.#files.get(path) ?? device.file];
      former.devices.splice(former.devices.indexOf(device), 1);
      next.devices.push(device);
      device.file = next;
      device.config = { ...device.config, path: next.path };
    }
    for (const deviceId of paths.keys()) {
      const device = this.get(deviceId);
      if (device.wanted) device.attach();
      else void device.file.look();
    }
  }

  /** Returns all files, one for each path. */
  files(): DeviceFile[] {
    return [...this.#files.values()];
  }

  has(deviceId: DeviceId): boolean {
    return this.#devices.has(deviceId);
  }

  find(deviceId: DeviceId): Device | undefined {
    return this.#devices.get(deviceId);
  }

  get(deviceId: DeviceId): Device {
    const device = this.#devices.get(deviceId);
    if (!device)
      throw new NotFoundError(`host ${this.#ledger.memory.hostId} has no device ${deviceId}`, {
        about: { device_id: deviceId },
      });
    return device;
  }

  /**
   * Calls `find` now and after each change of a device, until it returns a result. Returns undefined after the timeout.
   */
  until<Found>(find: () => Found | undefined, timeoutMs = this.#options.answerTimeoutMs): Promise<Found | undefined> {
    const { clock } = this.#options;
    return this.changes.until(undefined, find, { timeoutMs, clock });
  }

  /** Returns all devices by id. */
  all(): Device[] {
    return [...this.#devices.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * Finds the legs that a former life of the agent left, and ends those of sessions that are refused now. Must run before
   * any session is granted.
   */
  async findLegs(): Promise<void> {
    const { mapper, nvmeTarget, log } = this.#options;
    await nvmeTarget?.find();
    const sessions = new Set<number>();
    for (const found of (await mapper?.settle()) ?? []) {
      const { role } = found;
      if (role.kind !== "leg") continue;
      sessions.add(role.sessionNumber);
      const device = this.#devices.get(role.deviceId);
      if (device !== undefined) device.legs.enter(found);
      else {
        log.warn({ deviceId: role.deviceId }, "leg of a device that the config does not have any more wiped");
        // The drive may hang, and no session of a later agent waits for it.
        void this.#endLeg(mapper, role, found.number);
      }
    }
    for (const session of nvmeTarget?.sessions ?? []) if (!sessions.has(session)) void nvmeTarget?.end(session);
  }

  async #endLeg(
    mapper: DeviceMapper | undefined,
    role: MappedRole & { readonly kind: "leg" },
    number: string,
  ): Promise<void> {
    const { nvmeTarget, log } = this.#options;
    try {
      await mapper?.cut(role);
      await nvmeTarget?.end(role.sessionNumber, number);
      await mapper?.removeWhenFree(role);
    } catch (error) {
      log.error({ ...role, error: messageOf(error) }, "leg not ended");
    }
  }

  /**
   * Opens all devices except those remembered as detached. Restores their granted sessions without waiting, because I/O
   * of lower sessions ended with the former process. Waits up to `waitMs` for slow files. With `openNothing` every
   * device waits for an order.
   */
  async start(options: { waitMs: number; openNothing?: boolean }): Promise<void> {
    const { waitMs, openNothing = false } = options;
    this.#started = true;
    let looking = 0;
    for (const device of this.all()) {
      device.granted.grantAll(this.#ledger.memory.devices.get(device.id)?.sessions ?? []);
      if (!openNothing && isWanted(this.#ledger.memory, device.id)) device.attach();
      else {
        // Checks a detached device without opening it, because the registry is sent its size and usability.
        looking += 1;
        void device.file.look().then(() => {
          looking -= 1;
          this.changes.touch();
        });
      }
    }
    const opening = () =>
      [...this.#files.values()].some((file) => file.phase === "opening") ||
      [...this.#devices.values()].some((device) => device.label.isPending);
    await this.until(() => (opening() || looking > 0 ? undefined : true), waitMs);
    for (const file of this.#files.values()) if (!file.isHeld) file.clear();
    await this.#options.opener.clearOthers?.();
  }

  /** Closes every file, after waiting up to `waitMs` for I/O in flight. Sessions and orders stay remembered. */
  async stop(waitMs: number): Promise<void> {
    this.#options.opener.leave?.();
    for (const device of this.#devices.values()) device.detach();
    const closed = () => [...this.#files.values()].every((file) => file.phase === "closed");
    await this.until(() => (closed() ? true : undefined), waitMs);
    for (const { legs } of this.#devices.values()) void legs.leave();
  }
}
