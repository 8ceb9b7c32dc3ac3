import { messageOf, OutdatedError, UnavailableError } from "@diskmesh/domain";
import type { DeviceTable } from "../devices/device-table.js";
import { inTime } from "../devices/in-time.js";
import type { DeviceOutcome } from "../devices/outcome.js";

/** Why an order was not carried out. */
export type Refusal = Pick<DeviceOutcome, "outcome" | "message">;

interface Job {
  /** Jobs of one subject follow each other. */
  readonly subject: string;
  /** Name of the work. A job that is repeated while it runs is joined. */
  readonly name: string;
  /** Name of the written thing, for messages. */
  readonly what: string;
}

/** Writes to devices, each one after the earlier ones of its subject. A drive that hangs holds up no answer. */
export class Turns {
  readonly #devices: Pick<DeviceTable, "until" | "changes">;
  readonly #last = new Map<string, Promise<unknown>>();
  readonly #running = new Map<string, Promise<Refusal | undefined>>();

  constructor(devices: Pick<DeviceTable, "until" | "changes">) {
    this.#devices = devices;
  }

  /** Resolves once the work is done, or to the reason why it is not, after the answer timeout at the latest. */
  async do({ subject, name, what }: Job, work: () => Promise<Refusal | undefined>): Promise<Refusal | undefined> {
    const key = `${subject} ${name}`;
    const begin = () => this.#begin(subject, what, work).finally(() => this.#running.delete(key));
    const running = this.#running.get(key) ?? begin();
    this.#running.set(key, running);
    const ended = await inTime(this.#devices, running);
    return ended === undefined ? { outcome: "pending", message: `${what} is being written` } : ended.result;
  }

  async #begin(subject: string, what: string, work: () => Promise<Refusal | undefined>): Promise<Refusal | undefined> {
    const turn = (this.#last.get(subject) ?? Promise.resolve()).then(work).catch((error: unknown): Refusal => {
      const message = `${what}: ${messageOf(error)}`;
      if (error instanceof OutdatedError) return { outcome: "outdated", message };
      return { outcome: error instanceof UnavailableError ? "pending" : "io_error", message };
    });
    this.#last.set(subject, turn);
    return turn.finally(() => {
      if (this.#last.get(subject) === turn) this.#last.delete(subject);
    });
  }
}
