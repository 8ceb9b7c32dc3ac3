import { type DeviceId, messageOf, NotFoundError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import { Condition } from "../condition.js";
import type { Log } from "../log.js";
import { isWanted } from "../model/memory.js";
import { Device, type DeviceConfig } from "./device.js";
import { DeviceFile } from "./device-file.js";
import type { FileOpener } from "./open-file.js";

/** All devices of the agent's configuration. */
export class DeviceTable {
  /** Notified whenever a device, a file or an I/O changed. */
  readonly condition = new Condition();
  readonly #devices = new Map<DeviceId, Device>();
  readonly #files = new Map<string, DeviceFile>();
  readonly #ledger: Ledger;
  readonly #opener: FileOpener;

  constructor(options: {
    devices: readonly DeviceConfig[];
    ledger: Ledger;
    opener: FileOpener;
    maxInFlightIoPerDevice: number;
    log: Log;
  }) {
    this.#ledger = options.ledger;
    this.#opener = options.opener;
    const { condition } = this;
    for (const config of options.devices) {
      const { path } = config;
      const file =
        this.#files.get(path) ?? new DeviceFile({ path, opener: options.opener, condition, log: options.log });
      this.#files.set(path, file);
      const maxInFlightIo = options.maxInFlightIoPerDevice;
      this.#devices.set(
        config.deviceId,
        new Device(config, file, { ledger: options.ledger, condition, maxInFlightIo }),
      );
    }
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

  /** In order of device id. */
  all(): Device[] {
    return [...this.#devices.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * The start: opens every device but those remembered as detached, and gives them the sessions that were granted
   * before; I/O of lower ones ended with the process that ran it. Waits for slow files only as long as given.
   */
  async start(waitMs: number, clock: Clock): Promise<void> {
    const looks: Promise<void>[] = [];
    let looking = 0;
    for (const device of this.all()) {
      device.grant(this.#ledger.memory.devices.get(device.id)?.session?.number ?? 0);
      if (isWanted(this.#ledger.memory, device.id)) device.attach();
      else {
        looking += 1;
        looks.push(
          this.#look(device).finally(() => {
            looking -= 1;
            this.condition.notify();
          }),
        );
      }
    }
    const opening = () => [...this.#files.values()].some((file) => file.phase === "opening");
    await this.condition.until(() => (opening() || looking > 0 ? undefined : true), waitMs, clock);
  }

  /** Lets go of every file; what is in flight is waited for as long as given. Sessions and orders stay as they are. */
  async stop(waitMs: number, clock: Clock): Promise<void> {
    for (const device of this.#devices.values()) device.detach();
    const closed = () => [...this.#files.values()].every((file) => file.phase === "closed");
    await this.condition.until(() => (closed() ? true : undefined), waitMs, clock);
  }

  // A detached device is not opened, but the registry is told its size, and whether it could be used.
  async #look(device: Device): Promise<void> {
    try {
      const facts = await this.#opener.look(device.config.path);
      device.verify(facts.sizeBytes);
    } catch (error) {
      device.noteUnusable(messageOf(error));
    }
  }
}
