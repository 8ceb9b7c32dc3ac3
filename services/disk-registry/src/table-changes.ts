import { Changes } from "@diskmesh/service";
import type { Change, StoredChange } from "@diskmesh/tablet";
import type { Device, Host } from "./model/schema.js";
import type { RegistryTablet } from "./stored-schema.js";

/** What changed between two positions, and the position to go on from. */
export interface Changed {
  readonly keys: readonly string[];
  readonly position: number;
}

/**
 * The keys of what changed durably, in order, the last so many of them. All watchers read this one list, each at its own
 * position: a watcher that falls behind the list's start begins anew, and costs nothing until then.
 */
export class TableChanges {
  readonly #max: number;
  readonly #keys: string[] = [];
  /** The position of the first key in the list. */
  #start = 0;
  readonly #changes = new Changes<void>();
  readonly #unwatch: () => void;

  constructor(
    tablet: Pick<RegistryTablet, "watch">,
    maxRemembered: number,
    keysOf: (change: StoredChange) => readonly string[],
  ) {
    this.#max = maxRemembered;
    this.#unwatch = tablet.watch((changes) => this.touch(changes.flatMap((change) => keysOf(change))));
  }

  /** Where the next change will be. */
  get end(): number {
    return this.#start + this.#keys.length;
  }

  /** What changed from the position on, each key once, at most so many; undefined when that is forgotten. */
  since(position: number, max: number): Changed | undefined {
    if (position < this.#start || position > this.end) return undefined;
    const first = position - this.#start;
    const keys = this.#keys.slice(first, first + max);
    return { keys: [...new Set(keys)], position: position + keys.length };
  }

  /** Resolves once there are changes at the position or after it. */
  async beyond(position: number, signal: AbortSignal): Promise<void> {
    using watch = this.#changes.watch();
    while (this.end <= position) await watch.changed(signal);
  }

  close(): void {
    this.#unwatch();
  }

  /** These look otherwise by what is in memory only. */
  touch(keys: Iterable<string>): void {
    const before = this.#keys.length;
    for (const key of keys) this.#keys.push(key);
    if (this.#keys.length === before) return;
    // In large steps: moving what remains costs as much as what is dropped.
    if (this.#keys.length > 2 * this.#max) {
      const dropped = this.#keys.length - this.#max;
      this.#keys.splice(0, dropped);
      this.#start += dropped;
    }
    this.#changes.touch();
  }
}

/** The keys of a table's own changes. */
export function keysIn(table: string): (change: Change) => readonly string[] {
  return (change) => (change.table === table ? [change.key] : []);
}

/** Stands for the disks on a host's devices. No id holds a space. */
export const ON_HOST = "on host ";

/** The disks of which something may look otherwise: a disk's health is that of its devices and their hosts. */
export function disksSeenOtherwise({ table, key, document, previous }: StoredChange): readonly string[] {
  if (table === "disks") return [key];
  if (table === "devices") {
    // Neither when it came and went within one commit.
    const device = (document ?? previous?.document) as Device | undefined;
    return device?.diskId ? [device.diskId] : [];
  }
  if (table !== "hosts") return [];
  const [now, before] = [document, previous?.document] as (Host | null | undefined)[];
  return now?.state === before?.state ? [] : [`${ON_HOST}${key}`];
}
