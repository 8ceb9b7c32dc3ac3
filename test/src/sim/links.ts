import { formatSessionIdentity, type LinkDevice, type ListenForHoldersOptions } from "@diskmesh/disk-agent/simulation";
import { DomainError, OutdatedError, UnavailableError } from "@diskmesh/domain";
import type { Random } from "../random.js";
import type { Faults } from "./faults.js";
import { SimLink } from "./link.js";
import type { SimProcess, Timeline } from "./seed/timeline.js";
import { type Observer, stackOf } from "./seed/violation.js";

/** An agent that serves its devices to holders on other hosts. */
interface ServedHolders {
  readonly process: SimProcess;
  readonly access: ListenForHoldersOptions["access"];
  /** Functions that tell clients that the process has ended. */
  readonly cut: Set<() => void>;
}

/** Interval in simulated ms of the checks whether a link breaks. */
const LINK_LOOK_MS = 150;

/** Links from holders to devices of other hosts, over the network around them. */
export class SimLinks {
  readonly #holders = new Map<string, ServedHolders>();

  constructor(
    private readonly around: {
      readonly timeline: Timeline;
      readonly random: Random;
      readonly faults: Faults;
      readonly observer: Observer;
      readonly delayMs: () => number;
      readonly isBlocked: (a: string, b: string) => boolean;
    },
  ) {}

  /** Tells the clients of a process that it has ended. */
  remove(process: SimProcess): void {
    for (const server of this.#holders.values())
      if (server.process === process) for (const cut of [...server.cut]) cut();
  }

  /** Accepts links to an agent's devices at an address, in place of the agent's former process. */
  serve(address: string, process: SimProcess, access: ListenForHoldersOptions["access"]): void {
    this.#holders.set(address, { process, access, cut: new Set() });
  }

  /**
   * Links a holder to a device, as its agent does over TLS: the key must be that of the identity. Throws OutdatedError
   * when the device's agent knows no key of the identity.
   */
  async open(
    client: SimProcess,
    { address, sessionKey, ...named }: Parameters<LinkDevice>[0],
    signal: AbortSignal,
  ): Promise<SimLink> {
    const { timeline } = this.around;
    await new Promise<void>((resolve) => timeline.after(this.around.delayMs(), client, "", resolve));
    const server = this.#holders.get(address);
    if (server === undefined || !server.process.alive || this.around.isBlocked(client.place, server.process.place))
      throw new UnavailableError(`${address}: cannot connect`);
    const link = await this.#handshake(client, server, formatSessionIdentity(named), sessionKey);
    server.cut.add(link.cutByServer);
    const close = (): void => link.close();
    signal.addEventListener("abort", close);
    if (signal.aborted) close();
    void link.ended.then(() => {
      signal.removeEventListener("abort", close);
      server.cut.delete(link.cutByServer);
    });
    const breakIfBlocked = (): void => {
      if (link.hasEnded) return;
      const blocked = this.around.isBlocked(client.place, server.process.place);
      if (blocked || this.around.random.chance(this.around.faults.linkBreak)) link.close();
      else timeline.after(LINK_LOOK_MS, undefined, "", breakIfBlocked);
    };
    timeline.after(LINK_LOOK_MS, undefined, "", breakIfBlocked);
    this.around.observer.trace(`${client.name}: link to ${server.process.name}`);
    return link;
  }

  #handshake(client: SimProcess, server: ServedHolders, identity: string, sessionKey: string): Promise<SimLink> {
    const { timeline } = this.around;
    const { process, access, cut } = server;
    return new Promise((resolve, reject) => {
      const toClient = (arrive: () => void): void => void timeline.after(this.around.delayMs(), client, "", arrive);
      const fail = (error: DomainError): void => toClient(() => reject(error));
      const lost = (): void => fail(new UnavailableError(`the connection to ${process.name} was lost`));
      cut.add(lost);
      timeline.after(this.around.delayMs(), process, "", async () => {
        const key = access.keyOf(identity)?.toString("hex");
        const connection = new AbortController();
        try {
          if (key === undefined) return fail(new OutdatedError(`${process.name} knows no key of ${identity}`));
          if (key !== sessionKey) return fail(new UnavailableError(`${process.name} has another key of ${identity}`));
          const { served, part, leave } = await access.open(identity, connection);
          const machineBootId = served.description ?? "";
          const link = new SimLink(timeline, client, { process, part, machineBootId, connection, leave }, () =>
            this.around.delayMs(),
          );
          toClient(() => resolve(link));
        } catch (error) {
          if (!(error instanceof DomainError))
            this.around.observer.violation(`a link fails with a bug: ${stackOf(error)}`);
          lost();
        } finally {
          cut.delete(lost);
        }
      });
    });
  }
}
