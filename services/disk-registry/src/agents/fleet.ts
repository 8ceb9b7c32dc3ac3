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
import type { OtherFleet } from "../model/store/other-fleet.js";
import type { RegistryTables } from "../model/store/schema.js";
import type { RegistryTablet } from "../store/stored-schema.js";

const NOTHING: Numbers = { tabletGeneration: 0, deviceGeneration: 0, sessionNumber: 0 };

/** Maximum hosts that one transaction marks for a new registration. Keeps a commit far below its maximum size. */
const HOSTS_PER_COMMIT = 1_000;

/**
 * Compares the incarnation and the numbers (generations and sessions) that agents remember with those of this registry.
 * Stops giving orders when an agent obeys another incarnation, and raises the counters above numbers that this registry
 * did not issue.
 */
export class Fleet {
  /** Last report of each agent whose numbers were refused. */
  readonly refused = new Map<HostId, Refused>();
  /**
   * Boot id of each agent that has reported its remembered numbers to this leader. Purged hosts stay in the map,
   * because their agents still remember the numbers of earlier orders.
   */
  readonly #introduced = new Map<HostId, string>();
  /** Highest numbers that an agent can remember before this leader has sent orders. */
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

  /**
   * Returns the current leader. A caller reads the leader before it awaits, so that orders carry the generation under
   * which they were planned.
   */
  leader(): Leader {
    const { id: tabletId, incarnation, generation: tabletGeneration } = this.tablet;
    return { tabletId, incarnation, tabletGeneration };
  }

  /** Returns why this registry gives no orders and changes nothing; undefined when it leads. */
  get standsStill(): string | undefined {
    return this.#standsStill;
  }

  /** Throws InvalidStateError while another registry leads this fleet. */
  requireLeads(): void {
    if (this.#standsStill !== undefined) throw new InvalidStateError(this.#standsStill);
  }

  /**
   * Throws AbortedError while this registry raises its counters, because a number taken meanwhile could be a duplicate.
   */
  requireSettled(): void {
    if (this.#raising !== undefined)
      throw new AbortedError("the registry is raising its numbers above the numbers that agents remember: try again");
  }

  /** Returns whether this start of the host's agent has reported its remembered numbers to this leader. */
  knows(hostId: HostId, bootId: string): boolean {
    return this.#introduced.get(hostId) === bootId;
  }

  forget(hostId: HostId): void {
    this.#askAgain(hostId);
    this.refused.delete(hostId);
  }

  /**
   * Marks the host so that its agent reports its remembered numbers again. Keeps the map entry, because it also records
   * that this leader has sent numbers to the agent.
   */
  #askAgain(hostId: HostId): void {
    if (this.#introduced.has(hostId)) this.#introduced.set(hostId, "");
  }

  /**
   * Compares the numbers that an agent remembers with this registry's, and returns once this registry's are higher.
   * Throws InvalidStateError when the agent obeys another registry, or when an operator must decide whether the numbers
   * were really issued.
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

  /** Handles an agent's refusal of an order. A refusal may name another registry that the agent obeys. */
  async hearRefusal(hostId: HostId, { about }: DomainError): Promise<void> {
    const other = obeyedInstead(about);
    if (other === undefined) return;
    const judged = await this.#judge(hostId, { ...other, ...NOTHING });
    if (judged.verdict === "other incarnation") await this.#standStill(hostId, other);
  }

  /** Raises the counters because an operator states that these numbers were issued. `doing` is the operator's call. */
  async raise(seen: Numbers, doing?: Doing): Promise<void> {
    // Raises run one at a time, because the answers to two concurrent claims may arrive in the wrong order.
    for (;;) {
      await this.#raising;
      const upTo = await this.tablet.read((tables) => this.#coveringNumbers(tables, seen));
      if (upTo === undefined) return;
      if (this.#raising !== undefined) continue;
      this.log.warn({ ...seen }, "registry counters raised by an operator");
      this.#raising = this.#raiseTo(upTo.numbers, { above: upTo.above }, doing).finally(() => {
        this.#raising = undefined;
      });
      return this.#raising;
    }
  }

  /**
   * Returns the numbers to continue from, so that agents that remember `seen` accept orders, and the numbers that only
   * this registry can have issued (`above`); undefined when the counters are higher already. `above` excludes numbers
   * issued since this leader began, because another leader may have issued the same ones.
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

  /** Adopts the agents of another incarnation, because an operator states that the incarnation is gone for good. */
  async adopt(fleet: Pick<OtherFleet, "tabletId" | "incarnation">, doing?: Doing): Promise<void> {
    const { tabletId, incarnation } = this.leader();
    if (fleet.tabletId === tabletId && fleet.incarnation === incarnation)
      throw new InvalidArgumentError(
        `incarnation ${incarnation} is this registry's own: name the incarnation to adopt`,
        { about: { field: "incarnation" } },
      );
    await this.tablet.transact((tx) => adopt(tx, fleet, this.clock.nowMs()), doing);
    this.log.warn({ ...fleet }, "agents of another incarnation adopted by an operator");
    await this.#look();
  }

  /** Returns the highest numbers that the host's agent can remember. */
  #knownTo(tables: RegistryTables, hostId: HostId, origin: Origin, { tabletGeneration }: Remembered): Numbers {
    if (this.#introduced.has(hostId)) return ownNumbers(tables, this.leader());
    // Ignores the generation of an agent that obeys another incarnation, because generations of two incarnations are
    // not comparable.
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

  /** Starts a leadership. No agent has received an order of this generation yet. */
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

  /** Records the other incarnation, which stops all orders of this registry. Returns the error for the agent. */
  async #standStill(
    hostId: HostId,
    { tabletId, incarnation }: Pick<Remembered, "tabletId" | "incarnation">,
  ): Promise<Error> {
    const other = { tabletId, incarnation, hostId, heardAtMs: this.clock.nowMs() };
    const isNew = await this.tablet.transact((tx) => noteOther(tx, other, this.limits.maxOthers));
    await this.#look();
    if (isNew) this.log.error({ hostId, incarnation }, this.#standsStill ?? "unknown incarnation reported by an agent");
    const text =
      this.#standsStill ??
      `host ${hostId} obeys incarnation ${incarnation}, but the registry already remembers the maximum number of other incarnations`;
    return new InvalidStateError(text, { about: { host_id: hostId } });
  }

  #otherTablet(hostId: HostId, { tabletId, incarnation }: Remembered): Error {
    const own = this.tablet.id;
    return new InvalidStateError(
      `the agent of host ${hostId} obeys tablet ${tabletId}, incarnation ${JSON.stringify(incarnation)}, and this registry is ` +
        `tablet ${own}: point the agent at its own registry; if that registry is gone for good, call AdoptFleet ` +
        "as an operator, or remove the agent's cache file to hand this host over",
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
    this.log.error({ hostId, seen, own }, "outdated store detected, registry counters raised");
    await this.#raiseTo(raisedAbove(own, believedAhead), { above, reportedAtMs: this.clock.nowMs() });
  }

  /**
   * Raises the counters in this order: stop orders to all hosts, claim the generation (which proves that no other
   * process leads), raise the counters. After a crash in between, the next reports of agents cause the raise again.
   */
  async #raiseTo(upTo: Numbers, gap: Parameters<typeof raiseCounters>[2], doing?: Doing): Promise<void> {
    for (;;) {
      const hostIds = await this.tablet.read((tables) => registeredHosts(tables, HOSTS_PER_COMMIT));
      if (hostIds.length === 0) break;
      await this.tablet.transact((tx) => requireRegistration(tx, hostIds));
    }
    // Subtracts 1, because claimAbove claims a generation above its argument, and `upTo.tabletGeneration` itself may be
    // claimed.
    await this.tablet.claimAbove(upTo.tabletGeneration - 1);
    await this.tablet.transact((tx) => {
      raiseCounters(tx, upTo, gap);
      // All hosts register anew, so the numbers recorded at earlier starts no longer limit what an agent can remember.
      forgetStarts(tx);
    }, doing);
    this.#introduced.clear();
    await this.#begin();
  }
}

/**
 * Returns the tablet and incarnation that the agent obeys, from the error with which it refused an order; undefined
 * when the error lacks them.
 */
function obeyedInstead(about: DomainError["about"]): Pick<Remembered, "tabletId" | "incarnation"> | undefined {
  const { tablet_id: tabletId, incarnation } = about;
  if (!tabletId || !incarnation) return undefined;
  try {
    return { tabletId: parseId("tablet_id", tabletId), incarnation: parseId("incarnation", incarnation) };
  } catch {
    // The reported ids are malformed.
    return undefined;
  }
}
