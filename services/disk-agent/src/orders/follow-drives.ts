import { type DeviceId, isKnownSame, type Logger } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import { whyUnfit } from "../devices/device-place.js";
import type { DeviceTable } from "../devices/device-table.js";
import { type DevicePlace, planPlaces } from "../model/drive-places.js";
import type { Labels } from "./labels.js";

interface FollowOptions {
  readonly devices: DeviceTable;
  readonly labels: Pick<Labels, "look" | "found">;
  readonly ledger: Pick<Ledger, "memory">;
  readonly log: Logger;
  /** Called when devices have changed places, so that the agent registers again. */
  readonly onChange: () => void;
}

/** Has each device follow its drive to the path of another device of this host. */
export class FollowDrives {
  readonly #options: FollowOptions;

  constructor(options: FollowOptions) {
    this.#options = options;
  }

  /**
   * Reads the labels that are not known, and moves devices whose drives have changed places. Each one lets go of its
   * former file first. One that cannot, as when a drive hangs, is moved by a later call.
   */
  async look(): Promise<void> {
    const { devices, labels, onChange, log } = this.#options;
    await labels.look();
    const places = devices.all().map((device) => this.#placeOf(device));
    const moves = planPlaces(places, (device, place) => this.#isDriveOf(device, place));
    if (moves.size === 0) return;
    const moved = [...moves.keys()].map((deviceId) => devices.get(deviceId));
    for (const device of moved) if (device.holds) letGo(device, moves);
    const areFree = () => moved.every((device) => device.released) || undefined;
    await devices.until(areFree);
    // An order may have attached one of them meanwhile.
    if (!areFree()) return;
    devices.move(moves);
    for (const [deviceId, path] of moves) log.warn({ deviceId, path }, "device has followed its drive to another path");
    onChange();
  }

  #placeOf(device: Device): DevicePlace {
    const { path, offsetBytes, blockSizeBytes } = device.config;
    const found = this.#options.labels.found(device);
    return {
      deviceId: device.id,
      path,
      offsetBytes,
      blockSizeBytes,
      labelId: this.#options.ledger.memory.devices.get(device.id)?.labelId,
      foundLabelId: found?.state === "valid" ? found.label.labelId : undefined,
      isInUse: device.attached && device.changed === undefined,
    };
  }

  #isDriveOf({ deviceId }: DevicePlace, { deviceId: otherId }: DevicePlace): boolean {
    const { devices, ledger } = this.#options;
    const recorded = ledger.memory.devices.get(deviceId)?.identity;
    const { seen } = devices.get(otherId).file;
    if (recorded === undefined || seen === undefined) return false;
    const marks = { serialNumber: seen.serialNumber, fileIdentity: seen.identity };
    return isKnownSame(recorded, marks) && whyUnfit(seen, devices.get(deviceId).config, recorded) === undefined;
  }
}

function letGo(device: Device, moves: ReadonlyMap<DeviceId, string>): void {
  const message = `the drives of this host have changed places, and device ${device.id} goes on at ${JSON.stringify(moves.get(device.id))}`;
  device.fail({ outcome: "device_changed", message });
  device.file.reconcile();
}
