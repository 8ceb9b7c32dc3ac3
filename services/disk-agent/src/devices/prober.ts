import { type Clock, Slots } from "@diskmesh/service";
import type { Device } from "./device.js";
import { type HangLimits, hangOf } from "./device-problem.js";
import type { DeviceTable } from "./device-table.js";
import type { DriveErrors } from "./drive-errors.js";

/** Maximum devices probed at once. Probes must leave threads for I/O. */
const AT_ONCE = 4;

export interface ProberOptions {
  readonly devices: DeviceTable;
  /** Absent where programs see all errors of drives. */
  readonly driveErrors: DriveErrors | undefined;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  /** Durations of a read. */
  readonly limits: HangLimits;
}

/**
 * Tests whether held devices answer, with a small read at a random position, because the same block would come from the
 * kernel's cache. A device whose probe hangs gets no second one.
 */
export class Prober {
  readonly #options: ProberOptions;
  readonly #slots = new Slots(AT_ONCE);
  readonly #running = new Map<Device, number>();

  constructor(options: ProberOptions) {
    this.#options = options;
  }

  /**
   * Starts a probe of each held device that has none running, and sets the health of devices whose probe is slow. Does
   * not wait for the reads. Resolves once the errors of the kernel's log are noted.
   */
  async look(): Promise<void> {
    const { devices, driveErrors, clock } = this.#options;
    for (const device of devices.all()) {
      const startedAtMs = this.#running.get(device);
      if (startedAtMs !== undefined) this.#judge(device, clock.monotonicMs() - startedAtMs);
      else if (device.attached) void this.#probe(device);
    }
    await driveErrors?.look(devices);
  }

  async #probe(device: Device): Promise<void> {
    const { clock, random, limits } = this.#options;
    this.#running.set(device, Number.POSITIVE_INFINITY);
    const release = await this.#slots.acquire();
    this.#running.set(device, clock.monotonicMs());
    const over = new AbortController();
    // A hung read keeps its thread, but frees its slot for other devices.
    const slow = clock.sleep(limits.warningAfterMs, over.signal).then(
      () => {
        release();
        this.#judge(device, limits.warningAfterMs);
      },
      () => undefined,
    );
    await device.probe(random());
    this.#running.delete(device);
    over.abort();
    await slow;
    release();
  }

  #judge(device: Device, forMs: number): void {
    const problem = hangOf(`a read of device ${device.id}`, forMs, this.#options.limits);
    if (problem !== undefined) device.noteSlowProbe(problem);
  }
}
