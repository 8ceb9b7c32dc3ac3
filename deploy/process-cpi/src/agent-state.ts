import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { BlobstoreSettings, MbusSettings, Settings } from "./protocol.js";
import { writeWhole } from "./state.js";

interface Stored {
  readonly jobState: string;
  /** Argument of the last `apply` call. */
  readonly spec: Readonly<Record<string, unknown>>;
  /** NATS connection from update_settings. */
  readonly mbus?: MbusSettings;
  readonly blobstores?: readonly BlobstoreSettings[];
}

/** Arguments of update_settings; absent ones stay unchanged. */
export type Updated = Pick<Stored, "mbus" | "blobstores">;

const NOTHING: Stored = { jobState: "unknown", spec: {} };

/** State of an agent that it keeps over restarts. */
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

  /** Stores new settings. Returns whether anything changed. */
  update({ mbus = this.#stored.mbus, blobstores = this.#stored.blobstores }: Updated): boolean {
    const stored = { ...this.#stored, ...(mbus && { mbus }), ...(blobstores && { blobstores }) };
    if (JSON.stringify(stored) === JSON.stringify(this.#stored)) return false;
    this.#change(stored);
    return true;
  }

  /** Returns the certificate authorities for the upload of logs; undefined when none are set. */
  logAuthorities({ env }: Settings): string | undefined {
    const [blobstore] = this.#stored.blobstores ?? env.bosh?.blobstores ?? [];
    return blobstore?.options?.tls?.cert?.ca;
  }

  #change(stored: Stored): void {
    writeWhole(this.#file, stored, { mode: 0o600 });
    this.#stored = stored;
  }
}
