import { type DeviceLink, type DiskPart, LinkLostError } from "@diskmesh/disk-agent/simulation";
import { UnavailableError } from "@diskmesh/domain";
import type { SimProcess, Timeline } from "./seed/timeline.js";

type Operation<Result> = (part: DiskPart) => Promise<Result>;

/** The server's end of a link: what it has opened, and the controller that ends it. */
export interface ServerEnd {
  readonly process: SimProcess;
  readonly part: DiskPart;
  readonly machineBootId: string;
  readonly connection: AbortController;
  leave(): void;
}

/**
 * A holder's connection to a device of another host. Requests arrive in order, and so do answers, until the connection
 * breaks. Each side notices the break separately, and requests in transit may still arrive before.
 */
export class SimLink implements DeviceLink {
  readonly machineBootId: string;
  readonly ended: Promise<void>;
  readonly #pending = new Set<(lost: LinkLostError) => void>();
  #end: () => void = () => {};
  #hasEnded = false;
  #clientReadsUntilMs = 0;
  #serverReadsUntilMs = 0;

  constructor(
    private readonly timeline: Timeline,
    private readonly client: SimProcess,
    private readonly server: ServerEnd,
    private readonly delayMs: () => number,
  ) {
    this.machineBootId = server.machineBootId;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    server.connection.signal.addEventListener("abort", () => {
      server.leave();
      this.cutByServer();
    });
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return this.#ask(async (part) => Buffer.from(await part.read(offsetBytes, lengthBytes)));
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    const sent = Buffer.from(data);
    return this.#ask((part) => part.write(offsetBytes, sent, fua));
  }

  clear(...given: Parameters<DiskPart["clear"]>): Promise<void> {
    return this.#ask((part) => part.clear(...given));
  }

  flush(): Promise<void> {
    return this.#ask((part) => part.flush());
  }

  /** Breaks the link. The client notices at once, the server some time later. */
  close(): void {
    if (this.#hasEnded) return;
    this.#lose();
    const { process, connection } = this.server;
    this.timeline.after(this.delayMs(), process, "", () =>
      connection.abort(new UnavailableError("the link's connection was lost")),
    );
  }

  /** Ends the link because the server has ended it, or its process has ended. */
  readonly cutByServer = (): void => {
    this.timeline.after(this.delayMs(), this.client, "", () => this.#lose());
  };

  #lose(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const lost = new LinkLostError(`the link to ${this.server.process.name} was lost`);
    for (const lose of this.#pending) lose(lost);
    this.#pending.clear();
    this.#end();
  }

  #ask<Result>(operation: Operation<Result>): Promise<Result> {
    if (this.#hasEnded) return Promise.reject(new LinkLostError("the link has ended"));
    return new Promise((resolve, reject) => {
      this.#pending.add(reject);
      const answer = (settle: () => void): void =>
        this.#toClient(() => {
          if (this.#pending.delete(reject)) settle();
        });
      this.#toServer(() =>
        operation(this.server.part).then(
          (result) => answer(() => resolve(result)),
          (error: unknown) => answer(() => reject(error)),
        ),
      );
    });
  }

  #toServer(arrive: () => Promise<void>): void {
    this.#serverReadsUntilMs = Math.max(this.#serverReadsUntilMs, this.timeline.nowMs + this.delayMs());
    const { process, connection } = this.server;
    this.timeline.after(this.#serverReadsUntilMs - this.timeline.nowMs, process, "", () => {
      if (!connection.signal.aborted) void arrive();
    });
  }

  #toClient(arrive: () => void): void {
    if (this.server.connection.signal.aborted || !this.server.process.alive) return;
    this.#clientReadsUntilMs = Math.max(this.#clientReadsUntilMs, this.timeline.nowMs + this.delayMs());
    this.timeline.after(this.#clientReadsUntilMs - this.timeline.nowMs, this.client, "", arrive);
  }
}
