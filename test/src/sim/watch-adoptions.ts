import type { Device } from "@diskmesh/disk-registry/simulation";
import type { Change } from "@diskmesh/tablet";
import type { World } from "./parts.js";

/** Knows which device became which by an adoption, which only an operator requests, where the drive really is. */
export class AdoptionWatch {
  readonly #asked = new Set<string>();
  /** Device that each device was before its last adoption, by the device's id. */
  readonly #formerOf = new Map<string, Device>();

  constructor(private readonly world: World) {}

  ask(deviceId: string): void {
    this.#asked.add(deviceId);
  }

  /** Called before a commit is applied. Returns the former devices of those that the commit adopts, by their ids. */
  begin(changes: readonly Change[]): ReadonlyMap<string, Device> {
    const { store, bytes } = this.world;
    const adopted = new Map<string, Device>();
    for (const { table, key, document } of changes) {
      const device = table === "devices" ? (document as Device | null) : null;
      const labelId = device?.label?.labelId;
      if (device === null || labelId === undefined || !this.#asked.has(key)) continue;
      const found = store.device(key)?.foundLabel;
      // The registry may know no label of the former device, because the answer to its writing was lost, or it was purged.
      const isFormer = ({ deviceId, label }: Device): boolean =>
        label === undefined ? deviceId === found?.deviceId && labelId === found.labelId : label.labelId === labelId;
      const former = [...store.devices()].find((each) => each.deviceId !== key && isFormer(each));
      if (former === undefined) continue;
      // The drive of a machine without power may have been changed since its agent spoke. The next life looks at the label.
      if (this.world.agentOf(device.hostId)?.process.alive) {
        if (!bytes.isDriveOf(device.hostId, key, former.deviceId))
          this.world.violation(`${key} adopted the drive of ${former.deviceId}, which is not in its place`);
        bytes.noteAdopted(device.hostId, key);
      }
      adopted.set(key, former);
      this.#formerOf.set(key, former);
    }
    return adopted;
  }

  /** Returns whether the device has become the other one by an adoption. */
  isAdopted(deviceId: string, formerId: string): boolean {
    return this.#formerOf.get(deviceId)?.deviceId === formerId;
  }
}
