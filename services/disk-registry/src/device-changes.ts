import type { DeviceId } from "@diskmesh/domain";
import { Changes } from "@diskmesh/service";
import type { Change } from "@diskmesh/tablet";
import type { RegistryTablet } from "./stored-schema.js";

/** Which devices changed between two positions, and the position to go on from. */
export interface ChangedDevices {
  readonly deviceIds: readonly DeviceId[];
  readonly position: number;
}

/**
 * The ids of devices that changed durably, in order, the last so many of them. All watchers read this one list, each at
 * its own position: a watcher that falls behind the list's start begins anew, and costs nothing until then.
 */
export class DeviceChanges {
  readonly #max: number;
  readonly #ids: DeviceId[] = [];
  /** The position of the first id in the list. */
  #start = 0;
  readonly #changes = new Changes<void>();
  readonly #unwatch: () => void;

  constructor(tablet: Pick<RegistryTablet, "watch">, maxRemembered: number) {
    this.#max = maxRemembered;
    this.#unwatch = tablet.watch((changes) => this.#add(changes));
  }

  /** Where the next change will be. */
  get end(): number {
    return this.#start + this.#ids.length;
  }

  /** What changed from the position on, each device once, at most so many; undefined when that is forgotten. */
  since(position: number, max: number): ChangedDevices | undefined {
    if (position < this.#start || position > this.end) return undefined;
    const first = position - this.#start;
    const ids = this.#ids.slice(first, first + max);
    return { deviceIds: [...new Set(ids)], position: position + ids.length };
  }

  /** Resolves once there are changes at the position or after it. */
  async beyond(position: number, signal: AbortSignal): Promise<void> {
    using watch = this.#changes.watch();
    while (this.end <= position) await watch.changed(signal);
  }

  close(): void {
    this.#unwatch();
  }

  #add(changes: readonly Change[]): void {
    const before = this.#ids.length;
    for (const { table, key } of changes) if (table === "devices") this.#ids.push(key as DeviceId);
    if (this.#ids.length === before) return;
    // In large steps: moving what remains costs as much as what is dropped.
    if (this.#ids.length > 2 * this.#max) {
      const dropped = this.#ids.length - this.#max;
      this.#ids.splice(0, dropped);
      this.#start += dropped;
    }
    this.#changes.touch();
  }
}
