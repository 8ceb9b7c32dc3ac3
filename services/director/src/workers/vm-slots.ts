import { Slots } from "@diskmesh/service";

/** So many VMs of each CPI are worked on at once; whoever wants to begin with another waits in line. */
export class VmSlots {
  readonly #byCpi = new Map<string, Slots>();

  constructor(private readonly perCpi: number) {}

  /** Resolves with what gives the place back. Rejects with the signal's reason when that aborts before. */
  acquire(cpi: string, signal: AbortSignal): Promise<() => void> {
    const slots = this.#byCpi.get(cpi) ?? new Slots(this.perCpi);
    this.#byCpi.set(cpi, slots);
    return slots.acquire(1, signal);
  }
}
