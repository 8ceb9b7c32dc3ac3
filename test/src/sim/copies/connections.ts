import type { DeviceId } from "@diskmesh/domain";

/** Connections of a holder to its devices, and what is on its way over them. */
export class Connections {
  readonly #numbers = new Map<DeviceId, number>();
  /** Requests that have no answer yet, by keys of words, among them the device. */
  readonly #begun = new Set<string>();
  /** Blocks of which a copy is on its way. */
  readonly #locks = new Set<string>();

  numberOf(deviceId: DeviceId): number {
    return this.#numbers.get(deviceId) ?? 0;
  }

  /** Begins a new connection: of the former one nothing is on its way any more. */
  renew(deviceId: DeviceId): void {
    this.#numbers.set(deviceId, this.numberOf(deviceId) + 1);
    for (const keys of [this.#begun, this.#locks])
      for (const key of keys) if (key.split(" ").includes(deviceId)) keys.delete(key);
  }

  isBegun(key: string): boolean {
    return this.#begun.has(key);
  }

  /** Begins what is not on its way already. */
  once(key: string, begin: (done: () => void) => void): void {
    if (this.#begun.has(key)) return;
    this.#begun.add(key);
    begin(() => this.#begun.delete(key));
  }

  /** An agent has ended, and records that were on their way are lost. */
  loseRecords(): void {
    for (const key of this.#begun) if (key.endsWith(" record")) this.#begun.delete(key);
  }

  /** Locks a block that is copied until the result is called, or one of the devices has another connection. */
  lock(devices: readonly DeviceId[], part: number, block: number): () => void {
    const key = `${devices.join(" ")} ${part} ${block}`;
    this.#locks.add(key);
    return () => this.#locks.delete(key);
  }

  isLocked(part: number, block: number): boolean {
    return [...this.#locks].some((key) => key.endsWith(` ${part} ${block}`));
  }
}
