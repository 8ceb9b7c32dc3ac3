import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { BlobstoreSettings, MbusSettings, Settings } from "./protocol.js";
import { writeWhole } from "./state.js";

interface Stored {
  readonly jobState: string;
  /** What apply said that the VM is part of. */
  readonly spec: Readonly<Record<string, unknown>>;
  /** What update_settings changed. */
  readonly mbus?: MbusSettings;
  readonly blobstores?: readonly BlobstoreSettings[];
}

/** What update_settings gives; what is left out stays as it is. */
export type Updated = Pick<Stored, "mbus" | "blobstores">;

const NOTHING: Stored = { jobState: "unknown", spec: {} };

/** What an agent remembers over its restarts. */
export class AgentState {
  readonly #file: string;
  #stored: Stored;

  constructor(folder: string) {
    this.#file = join(folder, "agent-state.json");
    this.#stored = existsSync(this.#file) ? JSON.parse(readFileSync(this.#file, "utf8")) : NOTHING;
  }

  get spec(): Stored["spec"] {
    return this.#stored.spec;
  }

  get jobState(): string {
    return this.#stored.jobState;
  }

  get mbus(): MbusSettings | undefined {
    return this.#stored.mbus;
  }

  setJobState(jobState: string): void {
    this.#change({ ...this.#stored, jobState });
  }

  apply(spec: Stored["spec"]): void {
    this.#change({ ...this.#stored, spec });
  }

  /** Whether anything is new. */
  update({ mbus = this.#stored.mbus, blobstores = this.#stored.blobstores }: Updated): boolean {
    const stored = { ...this.#stored, ...(mbus && { mbus }), ...(blobstores && { blobstores }) };
    if (JSON.stringify(stored) === JSON.stringify(this.#stored)) return false;
    this.#change(stored);
    return true;
  }

  /** By which it knows whoever takes its logs; undefined where nobody said. */
  logAuthorities({ env }: Settings): string | undefined {
    const [blobstore] = this.#stored.blobstores ?? env.bosh?.blobstores ?? [];
    return blobstore?.options?.tls?.cert?.ca;
  }

  #change(stored: Stored): void {
    writeWhole(this.#file, stored, { mode: 0o600 });
    this.#stored = stored;
  }
}
