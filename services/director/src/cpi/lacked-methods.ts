import type { Clock } from "@diskmesh/service";

/** Pause before a method that a CPI lacks is called again, because the CPI's executable may have been replaced. */
const LACKED_FOR_MS = 600_000;

/** Methods that are called each time, because to do without them costs more than a call: a disk's data is copied. */
const ALWAYS_CALLED: ReadonlySet<string> = new Set(["resizeDisk", "updateDisk"]);

/** The optional methods that CPIs of the present cpi-config lack. */
export class LackedMethods {
  #version = "";
  /** The monotonic end of the pause by method and CPI; 0 for no pause. */
  readonly #untilMs = new Map<string, number>();

  constructor(private readonly clock: Pick<Clock, "monotonicMs">) {}

  /** Forgets the CPIs of another version of the cpi-config. */
  useConfig(version: string): void {
    if (version === this.#version) return;
    this.#version = version;
    this.#untilMs.clear();
  }

  isPaused(method: string, cpi: string): boolean {
    return this.clock.monotonicMs() < (this.#untilMs.get(keyOf(method, cpi)) ?? 0);
  }

  /** Returns true the first time. With `pauses`, the method is not called for some time, whatever the arguments. */
  add(method: string, cpi: string, { pauses }: { readonly pauses: boolean }): boolean {
    const key = keyOf(method, cpi);
    const isFirst = !this.#untilMs.has(key);
    this.#untilMs.set(key, pauses && !ALWAYS_CALLED.has(method) ? this.clock.monotonicMs() + LACKED_FOR_MS : 0);
    return isFirst;
  }
}

const keyOf = (method: string, cpi: string): string => `${method} ${cpi}`;
