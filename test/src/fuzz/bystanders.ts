import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { TlsFiles } from "@diskmesh/rpc";
import type { Target } from "./targets.js";

/** An ordinary client: its requests, and the process that it calls. */
export type Watched = { readonly name: string; readonly pid: number } & (
  | { readonly kind: "grpc"; readonly target: Target; readonly serverName?: string; readonly address: string }
  | { readonly kind: "nbd"; readonly socketPath: string }
  | { readonly kind: "mbus"; readonly address: string; readonly hostId: string; readonly tls: TlsFiles }
  | { readonly kind: "http"; readonly port: number }
);

export interface BystanderWork {
  readonly watched: readonly Watched[];
  /**
   * An idle server with a client of its own. A long wait of that client shows that the machine is slow, and not the
   * fuzzed services.
   */
  readonly control: { readonly address: string; readonly pid: number; readonly tls: TlsFiles };
  readonly tls: TlsFiles;
  readonly limitMs: number;
}

/** Waiting times of a client. */
export interface Waited {
  readonly name: string;
  readonly calls: number;
  readonly worstMs: number;
  /**
   * Longest wait in ms, minus the delay caused by the machine: the control's wait at that time, or the time that the
   * process waited for a processor.
   */
  readonly worstNetMs: number;
}

export interface TooLate {
  readonly name: string;
  readonly waitedMs: number;
  readonly netMs: number;
  /** Message of the latest error. */
  readonly error: string;
}

/** Ordinary clients of all fuzzed services, in their own thread. */
export class Bystanders implements AsyncDisposable {
  #waits: readonly Waited[] = [];

  private constructor(private readonly thread: Worker) {}

  /** Resolves when each client has got an answer. */
  static async start(work: BystanderWork, onLate: (late: TooLate) => void): Promise<Bystanders> {
    const thread = new Worker(new URL("./bystander-thread.js", import.meta.url), { workerData: work });
    const bystanders = new Bystanders(thread);
    await once(thread, "message");
    thread.on("message", (message: { late?: TooLate; waits?: readonly Waited[] }) => {
      if (message.late !== undefined) onLate(message.late);
      if (message.waits !== undefined) bystanders.#waits = message.waits;
    });
    return bystanders;
  }

  /** Waits that ended within the last second. */
  get waits(): readonly Waited[] {
    return this.#waits;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.thread.terminate();
  }
}
