import {
  AbortedError,
  type DomainError,
  formatIdentity,
  type HostId,
  InvalidArgumentError,
  InvalidStateError,
  type Logger,
  parseId,
} from "@diskmesh/domain";
import type { Clock, LineLimit } from "@diskmesh/service";
import type { RegistryLimits } from "../config/limits.js";
import type { Leader } from "../model/devices/orders.js";
import {
  adopt,
  forgetStarts,
  judgeNumbers,
  type Numbers,
  type NumbersVerdict,
  noteOther,
  noteStart,
  numbersAtFirst,
  numbersKnownTo,
  type Origin,
  originOf,
  ownNumbers,
  type Remembered,
  raiseCounters,
  raisedAbove,
  refusedNumbers,
  registeredHosts,
  requireRegistration,
  whyStandsStill,
} from "../model/disks/remembered.js";
import type { Doing } from "../model/events/events.js";
import type { Refused } from "../model/hosts/refused.js";
import type { OtherFleet, RegistryTables } from "../model/store/schema.js";
import type { RegistryTablet } from "../store/stored-schema.js";

const NOTHING: Numbers = { tabletGeneration: 0, deviceGeneration: 0, sessionNumber: 0 };

/** In one transaction; a fleet's largest is then far below what a commit may have. */
const HOSTS_PER_COMMIT = 1_000;

/**
 * Whose fleet it is: compares what agents remember with what this registry has given out. It stands still when another
 * incarnation leads, and goes on above numbers that it cannot have given.
 */
export class Fleet {
  /** What hosts' agents said last that is not believed. */
  readonly refused = new Map<HostId, Refused>();
  /** By host: the start of its agent that has told this leader what it remembers. Purged hosts stay, as what they were told does. */
  readonly #introduced = new Map<HostId, string>();
  /** What agents can know that this leader has told nothing yet. */
  #atFirst: Numbers = NOTHING;
  #standsStill: string | undefined;
  #raising: Promise<void> | undefined;

  private constructor(
    private readonly tablet: RegistryTablet,
    private readonly clock: Clock,
    private readonly limits: RegistryLimits,
    private readonly log: Logger,
    private readonly refusalLines: LineLimit,
  ) {}

  static async open(
    tablet: RegistryTablet,
    clock: Clock,
    limits: RegistryLimits,
    log: Logger,
    refusalLines: LineLimit,
  ): Promise<Fleet> {
    const fleet = new Fleet(tablet, clock, limits, log, refusalLines);
    await fleet.#begin();
    return fleet;
  }

  /** Who gives the stamps, as of now: what was planned before an await is stamped with what was so then. */
  leader(): Leader {
    const { id: tabletId, incarnation, generation: tabletGeneration } = this.tablet;
    return { tabletId, incarnation, tabletGeneration };
  }

  /** Why this registry gives no orders and changes nothing; undefined when it does. */
  get standsStill(): string | undefined {
    return this.#standsStill;
  }

  /** Throws InvalidStateError while another registry leads this fleet. */
  requireLeads(): void {
    if (this.#standsStill !== undefined) throw new InvalidStateError(this.#standsStill);
  }

  /** Throws AbortedError while this registry goes on above numbers that it did not know: nothing may be taken in between. */
  requireSettled(): void {
    if (this.#raising !== undefined)
      throw new AbortedError("the registry goes on above numbers that agents remember: try again");
  }

  /** Whether that start of the host's agent has told this leader what it remembers. */
  knows(hostId: HostId, bootId: string): boolean {
    return this.#introduced.get(hostId) === bootId;
  }

  forget(hostId: HostId): void {
    this.#askAgain(hostId);
    this.refused.delete(hostId);
  }

  /** Its agent is to tell again what it remembers. That it was told what this leader gave stays so. */
  #askAgain(hostId: HostId): void {
    if (this.#introduced.has(hostId)) this.#introduced.set(hostId, "");
  }

  /**
   * Takes in what an agent remembers, once all of it is behind this registry's own numbers. Throws InvalidStateError when
   * its agent obeys another registry, or an operator must say whose numbers they are.
   */
  async hear(hostId: HostId, bootId: string, remembered: Remembered): Promise<void> {
    for (;;) {
      await this.#raising;
      const judged = await this.#judge(hostId, remembered);
      if (judged.verdict === "known") break;
      if (judged.verdict === "other tablet") throw this.#otherTablet(hostId, remembered);
      if (judged.verdict === "other incarnation") throw await this.#standStill(hostId, remembered);
      if (judged.verdict === "refuse") throw this.#refuse(hostId, remembered, judged.reason);
      this.#raising ??= this.#raiseForAgent(hostId, remembered).finally(() => {
        this.#raising = undefined;
      });
    }
    this.refused.delete(hostId);
    this.#introduced.set(hostId, bootId);
  }

  /** An agent refused an order: it may obey another registry. */
  async hearRefusal(hostId: HostId, { about }: DomainError): Promise<void> {
    const other = obeyedInstead(about);
    if (other === undefined) return;
    const judged = await this.#judge(hostId, { ...other, ...NOTHING });
    if (judged.verdict === "other incarnation") await this.#standStill(hostId, other);
  }

  /** An operator's word that numbers were truly given; `doing` is whose. */
  async raise(seen: Numbers, doing?: Doing): Promise<void> {
    // One at a time: of two claims, the answer to the first may come last.
    for (;;) {
      await this.#raising;
      const upTo = await this.tablet.read((tables) => this.#coveringNumbers(tables, seen));
      if (upTo === undefined) return;
      if (this.#raising !== undefined) continue;
      this.log.warn({ ...seen }, "an operator has the registry go on above numbers that were truly given");
      this.#raising = this.#raiseTo(upTo.numbers, { above: upTo.above }, doing).finally(() => {
        this.#raising = undefined;
      });
      return this.#raising;
    }
  }

  /**
   * Where to go on so that whoever remembers that much is believed, and above what others may have given; undefined when
   * that is so already. What was given since some leader began covers nothing: others may have given it, too.
   */
  #coveringNumbers(tables: RegistryTables, seen: Numbers): { numbers: Numbers; above: Numbers } | undefined {
    const own = ownNumbers(tables, this.leader());
    const above = numbersKnownTo(tables, this.#atFirst, 0);
    const covering = (field: keyof Numbers): number =>
      seen[field] > above[field] ? Math.max(seen[field], own[field]) + this.limits.believedAhead : own[field];
    const numbers: Numbers = {
      tabletGeneration: covering("tabletGeneration"),
      deviceGeneration: covering("deviceGeneration"),
      sessionNumber: covering("sessionNumber"),
    };
    const isHigher = (Object.keys(numbers) as (keyof Numbers)[]).some((field) => numbers[field] > own[field]);
    return isHigher ? { numbers, above } : undefined;
  }

  /** An operator's word that another incarnation is gone for good, and its agents are ours. */
  async adopt(fleet: Pick<OtherFleet, "tabletId" | "incarnation">, doing?: Doing): Promise<void> {
    const { tabletId, incarnation } = this.leader();
    if (fleet.tabletId === tabletId && fleet.incarnation === incarnation)
      throw new InvalidArgumentError(
        `incarnation ${incarnation} is this registry's own: name the one that is to be adopted`,
      );
    await this.tablet.transact((tx) => adopt(tx, fleet, this.clock.nowMs()), doing);
    this.log.warn({ ...fleet }, "an operator had the registry adopt the agents of another incarnation");
    await this.#look();
  }

  /** The highest numbers that the host's agent can know of. */
  #knownTo(tables: RegistryTables, hostId: HostId, origin: Origin, { tabletGeneration }: Remembered): Numbers {
    if (this.#introduced.has(hostId)) return ownNumbers(tables, this.leader());
    // Generations of another incarnation say nothing of ours.
    return origin === "own" ? numbersKnownTo(tables, this.#atFirst, tabletGeneration) : this.#atFirst;
  }

  #judge(
    hostId: HostId,
    remembered: Remembered,
  ): Promise<NumbersVerdict | { readonly verdict: "other incarnation" | "other tablet" }> {
    const { parentIncarnations } = this.tablet;
    return this.tablet.read((tables) => {
      const leader = this.leader();
      const origin = originOf(tables, leader, parentIncarnations, remembered);
      if (origin === "other incarnation" || origin === "other tablet") return { verdict: origin };
      const known = this.#knownTo(tables, hostId, origin, remembered);
      return judgeNumbers(tables, known, remembered, origin, this.limits, this.clock.nowMs());
    });
  }

  /** Nobody has been told anything under this generation. */
  async #begin(): Promise<void> {
    await this.#look();
    const own = await this.tablet.transact((tx) => {
      const numbers = ownNumbers(tx, this.leader());
      noteStart(tx, numbers);
      return numbers;
    });
    this.#atFirst = numbersAtFirst(own);
  }

  async #look(): Promise<void> {
    this.#standsStill = await this.tablet.read((tables) => whyStandsStill(tables, this.leader()));
  }

  /** Answers what to tell the agent. */
  async #standStill(
    hostId: HostId,
    { tabletId, incarnation }: Pick<Remembered, "tabletId" | "incarnation">,
  ): Promise<Error> {
    const other = { tabletId, incarnation, hostId, heardAtMs: this.clock.nowMs() };
    const isNew = await this.tablet.transact((tx) => noteOther(tx, other, this.limits.maxOthers));
    await this.#look();
    if (isNew) this.log.error({ hostId, incarnation }, this.#standsStill ?? "another incarnation was heard of");
    const text = this.#standsStill ?? `host ${hostId} obeys incarnation ${incarnation}, one more than are remembered`;
    return new InvalidStateError(text, { about: { host_id: hostId } });
  }

  #otherTablet(hostId: HostId, { tabletId, incarnation }: Remembered): Error {
    const own = this.tablet.id;
    return new InvalidStateError(
      `the agent of host ${hostId} obeys tablet ${tabletId}, incarnation ${JSON.stringify(incarnation)}, and this registry is ` +
        `tablet ${own}: point the agent at its own registry; if that is gone for good, let an operator say so with AdoptFleet, ` +
        "or remove the agent's cache file to hand this host over",
      { about: { host_id: hostId } },
    );
  }

  #refuse(hostId: HostId, { tabletGeneration, deviceGeneration, sessionNumber }: Remembered, reason: string): Error {
    const error = refusedNumbers(hostId, reason);
    const caller = formatIdentity({ role: "disk-agent", name: hostId });
    if (!this.refused.has(hostId) && this.refusalLines.admits(caller))
      this.log.error({ hostId, tabletGeneration, deviceGeneration, sessionNumber }, error.message);
    this.refused.set(hostId, { tabletGeneration, deviceGeneration, sessionNumber, heardAtMs: this.clock.nowMs() });
    this.#askAgain(hostId);
    return error;
  }

  async #raiseForAgent(hostId: HostId, remembered: Remembered): Promise<void> {
    const { believedAhead } = this.limits;
    const { own, above } = await this.tablet.read((tables) => ({
      own: ownNumbers(tables, this.leader()),
      above: numbersKnownTo(tables, this.#atFirst, remembered.tabletGeneration),
    }));
    const { tabletGeneration, deviceGeneration, sessionNumber } = remembered;
    const seen = { tabletGeneration, deviceGeneration, sessionNumber };
    this.log.error(
      { hostId, seen, own },
      `the agent of host ${hostId} remembers what this registry never gave: its store is older than what was done since. ` +
        "It goes on above, and every host registers anew",
    );
    await this.#raiseTo(raisedAbove(own, believedAhead), { above, reportedAtMs: this.clock.nowMs() });
  }

  /**
   * First no host is told anything any more, then the generation is claimed, which proves that nobody else leads, then the
   * counters go up: a crash in between leaves numbers that are found too low again.
   */
  async #raiseTo(upTo: Numbers, gap: Parameters<typeof raiseCounters>[2], doing?: Doing): Promise<void> {
    for (;;) {
      const hostIds = await this.tablet.read((tables) => registeredHosts(tables, HOSTS_PER_COMMIT));
      if (hostIds.length === 0) break;
      await this.tablet.transact((tx) => requireRegistration(tx, hostIds));
    }
    // One below: what is claimed is above the number that is named.
    await this.tablet.claimAbove(upTo.tabletGeneration - 1);
    await this.tablet.transact((tx) => {
      raiseCounters(tx, upTo, gap);
      // Every host registers anew: nobody is judged any more by what had been given before.
      forgetStarts(tx);
    }, doing);
    this.#introduced.clear();
    await this.#begin();
  }
}

/** Whom an agent says that it obeys, in an error; undefined when it says nothing of that. */
function obeyedInstead(about: DomainError["about"]): Pick<Remembered, "tabletId" | "incarnation"> | undefined {
  const { tablet_id: tabletId, incarnation } = about;
  if (!tabletId || !incarnation) return undefined;
  try {
    return { tabletId: parseId("tablet_id", tabletId), incarnation: parseId("incarnation", incarnation) };
  } catch {
    // Nothing that a registry can be called.
    return undefined;
  }
}
