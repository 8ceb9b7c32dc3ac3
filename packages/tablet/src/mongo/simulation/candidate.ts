import { FencedError, InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { table } from "../../documents/schema.js";
import type {
  Claim,
  ClaimOptions,
  Leader,
  LeaderState,
  OnDocument,
  RestoredClaim,
  TabletStorage,
} from "../../storage/storage.js";
import { Tablet } from "../../tablet.js";
import type { DocumentServer } from "../document-server.js";
import { MongoStorage } from "../mongo-storage.js";
import { Violation } from "./log-history.js";
import { LOG, TABLET } from "./shared-documents.js";
import { SimulatedServer } from "./simulated-server.js";
import type { SimulatedProcess, World } from "./world.js";

const LEASE_TIME_MS = 300;
export const SAFE_LEASE_TIME_MS = 250;
const CHECK_INTERVAL_MS = 15;
const LINGER_MS_MAX = 500;
const KEYS = 6;
/** Probability of a `claimAbove`, per call of a leader. */
const CLAIM_ABOVE_RATE = 0.04;

interface Head {
  readonly id: "head";
  /** Number of the transaction. */
  readonly n: number;
  /**
   * Ids of this process's transactions that are not acknowledged yet, including every transaction in the same commit.
   */
  readonly pending: readonly string[];
}

interface Item {
  readonly id: string;
  readonly n: number;
}

const schema = { head: table<Head>()({ key: ({ id }) => id }), items: table<Item>()({ key: ({ id }) => id }) };
type Schema = typeof schema;

/** A changed part of the protocol, to verify that the simulation detects the missing rule. */
export interface Ablation {
  /** True when the effect shows only where candidates wait for leases. */
  readonly onLeases?: boolean;
  readonly server?: (server: DocumentServer, process: SimulatedProcess) => DocumentServer;
  readonly checkLease?: (process: SimulatedProcess) => void;
  /** True to take every state for the one that was committed. */
  readonly ignoresSums?: boolean;
  readonly leaseTimeMs?: number;
  readonly restore?: (restore: RestoredClaim) => RestoredClaim;
}

/** Results that the tablet's callers have seen in one simulated world. */
export class Callers {
  readonly world: World;
  /**
   * True when candidates do not wait for leases. Reads may then be outdated, and only the log keeps the state correct.
   */
  readonly impatient: boolean;
  transactions = 0;
  readonly backups: string[] = [];
  /** Incarnation of the latest result. The incarnations before it, in `#former`, were replaced by restores. */
  #incarnation: string | undefined;
  readonly #former = new Set<string>();
  /** Highest number of a transaction of that incarnation that callers have seen. */
  #latest = 0;

  constructor(world: World, impatient: boolean) {
    this.world = world;
    this.impatient = impatient;
  }

  /** Returns the lowest number that a read starting now may return. */
  latestOf(incarnation: string): number {
    return incarnation === this.#incarnation ? this.#latest : 0;
  }

  isFormer(incarnation: string): boolean {
    return this.#former.has(incarnation);
  }

  note(incarnation: string, transactions: number): void {
    if (this.#former.has(incarnation)) return;
    if (this.#incarnation !== incarnation) {
      if (this.#incarnation !== undefined) this.#former.add(this.#incarnation);
      this.#incarnation = incarnation;
      this.#latest = 0;
    }
    this.#latest = Math.max(this.#latest, transactions);
  }
}

/** Runs one process: waits to lead, leads with the real code, and serves callers until it loses the lead. */
export async function candidate(process: SimulatedProcess, callers: Callers, ablation: Ablation): Promise<void> {
  const { world } = process;
  const storage = new ObservedStorage(process, callers, ablation);
  let tablet: Tablet<Schema>;
  try {
    tablet = await Tablet.open({
      name: TABLET,
      schema,
      storage,
      address: "simulated:1",
      clock: process.clock,
      limits: { renewIntervalMs: 120, commitTimeoutMs: 5_000 },
    });
  } catch (error) {
    if (isHalfRestored(error)) return world.count("refusedParts");
    if (!isLoss(error) && !(error instanceof InvalidStateError && world.counts.tampered)) throw error;
    return world.count(error instanceof InvalidStateError ? "refusedLoads" : "notOpened");
  }
  world.count("leaders");
  const pending = new Set<string>();
  const pauseMs = world.happens(0.5) ? 5 : 60;
  // A commit fails when another process leads, but a read does not. So some processes make few changes, and lead longer
  // without noticing a new leader.
  const changeRate = callers.impatient || world.happens(0.5) ? 0.5 : 0.05;
  let lost = false;
  void tablet.lost.then(() => {
    lost = true;
  });
  while (!lost) {
    await new Promise<void>((resolve) => process.clock.after(1 + world.below(pauseMs), resolve));
    if (world.happens(world.faults.stop)) {
      await tablet.close();
      return world.count("cleanStops");
    }
    if (world.happens(world.faults.backup)) void backUp(tablet, callers).catch((error) => world.violate(error));
    if (world.happens(CLAIM_ABOVE_RATE)) void claimAbove(tablet, world).catch((error) => world.violate(error));
    for (let calls = 1 + world.below(2); calls > 0; calls--) {
      void call(tablet, callers, pending, changeRate).catch((error) => world.violate(error));
    }
  }
  world.count("lost");
  // Services take time to stop. Other processes run meanwhile.
  await new Promise<void>((resolve) => process.clock.after(world.below(LINGER_MS_MAX), resolve));
  await tablet.close();
}

async function call(tablet: Tablet<Schema>, callers: Callers, pending: Set<string>, changeRate: number): Promise<void> {
  const { world } = callers;
  try {
    if (world.happens(changeRate)) await change(tablet, callers, pending);
    else await read(tablet, callers);
  } catch (error) {
    if (!isLoss(error)) throw error;
    world.count("refused");
  }
}

/** Claims above a random number, as a registry does when it learns of a generation above its own. */
async function claimAbove(tablet: Tablet<Schema>, world: World): Promise<void> {
  const above = tablet.generation + world.below(100);
  try {
    const generation = await tablet.claimAbove(above);
    if (generation <= above) throw new Violation(`claimed generation ${generation} instead of one above ${above}`);
    world.count("claimsAbove");
  } catch (error) {
    if (!isLoss(error)) throw error;
  }
}

async function change(tablet: Tablet<Schema>, callers: Callers, pending: Set<string>): Promise<void> {
  const { world } = callers;
  const transaction = `transaction-${callers.transactions++}`;
  pending.add(transaction);
  const changed = await tablet.transact((tx) => {
    const head = tx.head.get("head");
    const n = (head?.n ?? 0) + 1;
    tx.head.put({ id: "head", n, pending: [...pending] });
    for (let items = 1 + world.below(3); items > 0; items--) {
      const id = `k${world.below(KEYS)}`;
      if (tx.items.has(id) && world.happens(0.5)) tx.items.delete(id);
      else tx.items.put({ id, n });
    }
    return n;
  });
  pending.delete(transaction);
  world.count("commits");
  if (!world.documents.log.hasCommitted(transaction))
    throw new Violation(`${transaction} was acknowledged and is not in the log`);
  callers.note(tablet.incarnation, changed);
}

async function backUp(tablet: Tablet<Schema>, callers: Callers): Promise<void> {
  let text = "";
  try {
    for await (const piece of tablet.backup(0)) text += piece;
  } catch (error) {
    if (!isLoss(error)) throw error;
    return;
  }
  callers.backups.push(text);
}

async function read(tablet: Tablet<Schema>, callers: Callers): Promise<void> {
  const { incarnation } = tablet;
  const [atLeast, isFormer] = [callers.latestOf(incarnation), callers.isFormer(incarnation)];
  const numberIn = (head: Head | undefined): number => head?.n ?? 0;
  const shown = callers.world.happens(0.5)
    ? await tablet.read(({ head }) => numberIn(head.get("head")))
    : await tablet.transact(({ head }) => numberIn(head.get("head")));
  callers.world.count("reads");
  if (callers.impatient) return;
  if (isFormer) throw new Violation(`a read shows the incarnation ${incarnation} after what was restored over it`);
  if (shown < atLeast)
    throw new Violation(`a read shows ${shown} transactions; ${atLeast} were acknowledged or shown before`);
  callers.note(incarnation, shown);
}

export function isLoss(error: unknown): boolean {
  return error instanceof FencedError || error instanceof UnavailableError;
}

/** Returns true for the errors that refuse an unfinished restore and a log with only late entries of a dropped log. */
function isHalfRestored(error: unknown): boolean {
  return error instanceof InvalidStateError && /partly restored backup|claim of its incarnation/.test(error.message);
}

/** The real storage on the simulated server. Compares each loaded state with the expected one. */
export class ObservedStorage implements TabletStorage {
  readonly checkLease: () => void;
  readonly #inner: MongoStorage;
  readonly #world: World;
  #claimNumber = 0;
  #isFollowing = false;
  /** Number of reads of the view since the claim. */
  #viewReads = 0;

  constructor(process: SimulatedProcess, callers: Callers, ablation: Ablation) {
    this.#world = process.world;
    this.#inner = new MongoStorage({
      tabletName: TABLET,
      clock: process.clock,
      connect: async () => {
        const server = this.#noteClaims(new SimulatedServer(process));
        return ablation.server?.(server, process) ?? server;
      },
      limits: {
        leaseTimeMs: callers.impatient ? 0 : (ablation.leaseTimeMs ?? LEASE_TIME_MS),
        safeLeaseTimeMs: SAFE_LEASE_TIME_MS,
        giveUpAfterMs: 600,
        applyIntervalMs: 10,
        unappliedChanges: 30,
        batchChanges: 3,
        // Little more than the time between two reads of a standby.
        keptLogMs: 150,
        // Disabled with an ablation, because the check would repair the damage that the ablation causes.
        checkIntervalMs: Object.keys(ablation).length > 0 ? Number.POSITIVE_INFINITY : CHECK_INTERVAL_MS,
      },
    });
    const inner = this.#inner;
    this.checkLease = () => (ablation.checkLease ? ablation.checkLease(process) : inner.checkLease());
  }

  claim(leader: Leader, options: ClaimOptions = {}): Promise<Claim> {
    const onFollowing = (): void => {
      this.#isFollowing = true;
    };
    const onEdited = (text: string): void => {
      if (!this.#world.counts.tampered) this.#world.violate(new Violation(`nobody edited anything, but ${text}`));
      this.#world.count("editsFound");
    };
    return this.#inner.claim(leader, { ...options, onFollowing, onEdited });
  }

  get logNumber(): number {
    return this.#inner.logNumber;
  }

  async load(onDocument: OnDocument): Promise<void> {
    const claim = this.#claimNumber;
    const loaded = new Map<string, unknown>();
    await this.#inner.load((table, key, stored) => {
      if (loaded.has(`${table}/${key}`)) throw new Violation(`${table}/${key} was loaded twice`);
      loaded.set(`${table}/${key}`, stored.document);
      onDocument(table, key, stored);
    });
    const [got, want] = [sorted(loaded), sorted(this.#world.documents.log.foldBefore(claim))];
    if (got !== want) throw new Violation(`the load at ${claim} gave ${got} instead of ${want}`);
    this.#world.count(this.#isFollowing && this.#viewReads === 0 ? "warmLoads" : "coldLoads");
  }

  commit(...args: Parameters<TabletStorage["commit"]>): Promise<void> {
    return this.#inner.commit(...args);
  }

  renew(): Promise<void> {
    return this.#inner.renew();
  }

  claimAbove(generation: number): Promise<number> {
    return this.#inner.claimAbove(generation);
  }

  keepChecked(state: LeaderState): void {
    this.#inner.keepChecked(state);
  }

  close(...args: Parameters<TabletStorage["close"]>): Promise<void> {
    return this.#inner.close(...args);
  }

  #noteClaims(server: SimulatedServer): DocumentServer {
    return changed(server, {
      insert: (collection, document) => {
        if (document.kind === "claim") {
          this.#claimNumber = document._id as number;
          this.#viewReads = 0;
        }
        return server.insert(collection, document);
      },
      find: (collection, range) => {
        if (collection !== LOG) this.#viewReads++;
        return server.find(collection, range);
      },
    });
  }
}

/** Returns a server with some operations replaced. */
export function changed(server: DocumentServer, operations: Partial<DocumentServer>): DocumentServer {
  const other: DocumentServer = {
    name: server.name,
    readInOrder: (read) => read(other),
    collections: (prefix) => server.collections(prefix),
    get: (...args) => server.get(...args),
    find: (...args) => server.find(...args),
    insert: (...args) => server.insert(...args),
    update: (...args) => server.update(...args),
    write: (...args) => server.write(...args),
    delete: (...args) => server.delete(...args),
    index: (...args) => server.index(...args),
    close: () => server.close(),
    ...operations,
  };
  return other;
}

function sorted(documents: Map<string, unknown>): string {
  return JSON.stringify([...documents].sort(([a], [b]) => (a < b ? -1 : 1)));
}
