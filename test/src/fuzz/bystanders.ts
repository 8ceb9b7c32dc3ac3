import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { TlsFiles } from "@diskmesh/rpc";
import type { Target } from "./targets.js";

/** An ordinary client: what it asks, of which process. */
export type Watched = { readonly name: string; readonly pid: number } & (
  | { readonly kind: "grpc"; readonly target: Target; readonly serverName?: string; readonly address: string }
  | { readonly kind: "nbd"; readonly socketPath: string }
  | { readonly kind: "mbus"; readonly address: string; readonly hostId: string; readonly tls: TlsFiles }
  | { readonly kind: "http"; readonly port: number }
);

export interface BystanderWork {
  readonly watched: readonly Watched[];
  /** A server that has nothing to do: as long as it keeps its client waiting, it is the machine that is slow. */
  readonly control: { readonly address: string; readonly pid: number; readonly tls: TlsFiles };
  readonly tls: TlsFiles;
  readonly limitMs: number;
}

/** How long one of them waited. */
export interface Waited {
  readonly name: string;
  readonly calls: number;
  readonly worstMs: number;
  /** Less what the machine did to it: what the control waited meanwhile, or the process for its turn on a processor. */
  readonly worstNetMs: number;
}

export interface TooLate {
  readonly name: string;
  readonly waitedMs: number;
  readonly netMs: number;
  /** The latest error. */
  readonly error: string;
}

/** Ordinary clients of everything that is under fuzz, in a thread of their own. */
export class Bystanders implements AsyncDisposable {
  #waits: readonly Waited[] = [];

  private constructor(private readonly thread: Worker) {}

  /** Resolves when each has been served once. */
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

  /** The waits that ended within the last second. */
  get waits(): readonly Waited[] {
    return this.#waits;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.thread.terminate();
  }
}
