import { Slots } from "@diskmesh/service";

/** So many VMs of each CPI are worked on at once; whoever wants to begin with another waits in line. */
export class VmSlots {
  readonly #byCpi = new Map<string, Slots>();

  constructor(private readonly perCpi: number) {}

  /** Does the work in a place of its own. Rejects with the signal's reason when that aborts before there is one. */
  async inSlot(cpi: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const slots = this.#byCpi.get(cpi) ?? new Slots(this.perCpi);
    this.#byCpi.set(cpi, slots);
    const release = await slots.acquire(1, signal);
    try {
      await work();
    } finally {
      release();
    }
  }
}
