import { UnavailableError } from "@diskmesh/domain";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { type Change, table } from "./documents/schema.js";
import type { Claim, ClaimOptions, Leader, TabletStorage } from "./storage/storage.js";
import { Tablet } from "./tablet.js";

const schema = { hosts: table<{ id: string }>()({ key: ({ id }) => id }) };

/** A minimal storage with a lease. */
class LeasedStorage implements TabletStorage {
  readonly commitSizeBytesMax = 1_000;
  readonly commits: (readonly Change[])[] = [];
  claimOptions: ClaimOptions | undefined;
  leaseError: Error | undefined;
  renewals = 0;
  renewError: Error | undefined;
  loading: Promise<void> = Promise.resolve();
  committing: Promise<void> = Promise.resolve();
  closed = false;

  async claim(_: Leader, options?: ClaimOptions): Promise<Claim> {
    this.claimOptions = options;
    return { tabletId: "tablet-1", incarnation: "life-1", parentIncarnations: [], generation: 1 };
  }

  async claimAbove(generation: number): Promise<number> {
    return generation + 1;
  }

  load(): Promise<void> {
    return this.loading;
  }

  async commit(changes: readonly Change[]): Promise<void> {
    this.commits.push(changes);
    await this.committing;
  }

  async renew(): Promise<void> {
    this.renewals++;
    if (this.renewError !== undefined) throw this.renewError;
  }

  checkLease(): void {
    if (this.leaseError !== undefined) throw this.leaseError;
  }

  async close(): Promise<void> {
    this.closed = true;
  }
}

describe("Tablet on a storage with a lease", () => {
  let storage: LeasedStorage;
  let tablet: Tablet<typeof schema> | undefined;
  const expired = new UnavailableError("the lease ran out");

  beforeEach(() => {
    storage = new LeasedStorage();
  });

  afterEach(async () => {
    await tablet?.close();
  });

  async function open(options: Omit<ClaimOptions, "schema"> = {}): Promise<Tablet<typeof schema>> {
    const limits = { renewIntervalMs: 5 };
    tablet = await Tablet.open({ name: "registry", schema, storage, address: "a:1", limits, ...options });
    return tablet;
  }

  it("answers no read while the lease has expired, and answers again after a renewal", async () => {
    const leader = await open();
    storage.leaseError = expired;
    const reads = [
      leader.read(() => 1),
      leader.read(() => thrown()),
      leader.transact(() => 1),
      leader.transact(() => thrown()),
    ];
    for (const read of reads) expect(await rejection(read)).to.equal(expired);
    expect(() => leader.checkMayAct()).to.throw("the lease ran out");
    storage.leaseError = undefined;
    leader.checkMayAct();
    expect(await leader.read(() => 1)).to.equal(1);
  });

  it("checks the lease after the read, during which it may have expired", async () => {
    const leader = await open();
    const read = leader.read(() => {
      storage.leaseError = expired;
    });
    expect(await rejection(read)).to.equal(expired);
  });

  it("leaves the decision about a change to the commit", async () => {
    const leader = await open();
    storage.leaseError = expired;
    await leader.transact(({ hosts }) => hosts.put({ id: "h" }));
    expect(storage.commits.length).to.equal(1);
  });

  it("renews the lease while it loads, and does not open when it is lost meanwhile", async () => {
    storage.loading = (async () => {
      while (storage.renewals < 3) await new Promise((resolve) => setTimeout(resolve, 1));
    })();
    await open();
    expect(storage.renewals).to.be.at.least(3);
    await tablet?.close();

    storage = new LeasedStorage();
    storage.renewError = new UnavailableError("taken");
    storage.loading = new Promise((resolve) => setTimeout(resolve, 50));
    expect((await rejection(open())).message).to.equal("taken");
    expect(storage.closed).to.equal(true);
  });

  it("passes on the options for waiting, and aborts during the load, too", async () => {
    const giveUp = new AbortController();
    const [onStandby, onFollowing] = [(): void => {}, (): void => {}];
    storage.loading = new Promise((resolve) => setTimeout(resolve, 20));
    const opening = open({ signal: giveUp.signal, onStandby, onFollowing });
    expect(storage.claimOptions).to.include({ signal: giveUp.signal, onStandby, onFollowing });
    giveUp.abort(new Error("stopped"));
    expect((await rejection(opening)).message).to.equal("stopped");
    expect(storage.closed).to.equal(true);
  });

  it("refuses a transaction above the storage's limit", async () => {
    const leader = await open();
    const error = await rejection(leader.transact(({ hosts }) => hosts.put({ id: "x".repeat(500) })));
    expect(error.message).to.contain("limit of 1000 bytes");
  });
});

describe("Tablet with a commit that reaches its timeout", () => {
  const COMMIT_TIMEOUT_MS = 30;
  let clock: ManualClock;
  let storage: LeasedStorage;
  let tablet: Tablet<typeof schema>;
  let commit: () => void;
  let change: Promise<unknown>;

  beforeEach(async () => {
    clock = new ManualClock();
    storage = new LeasedStorage();
    storage.committing = new Promise((resolve) => {
      commit = resolve;
    });
    const limits = { commitTimeoutMs: COMMIT_TIMEOUT_MS, renewIntervalMs: 1_000 };
    tablet = await Tablet.open({ name: "registry", schema, storage, address: "a:1", limits, clock });
    change = tablet.transact(({ hosts }) => hosts.put({ id: "h" }));
    change.catch(() => {});
    await clock.passTo(COMMIT_TIMEOUT_MS);
  });
  afterEach(() => tablet.close());

  it("continues when the answer arrived in time but the process was too busy to read it", async () => {
    // The timer fires first. The answer, which was already waiting, arrives in the next turns of the event loop.
    const overdue = clock.passTo(COMMIT_TIMEOUT_MS + 1);
    setImmediate(() => setImmediate(commit));
    await overdue;
    await change;
    await tablet.transact(({ hosts }) => hosts.put({ id: "h2" }));
  });

  it("is lost when there was no answer, and reports the outcome as unknown", async () => {
    await clock.passTo(COMMIT_TIMEOUT_MS + 1);
    expect((await tablet.lost).message).to.contain("a commit took longer than 30 ms");
    expect(await rejection(change)).to.include({ outcome: "unknown" });
    commit();
  });
});

function thrown(): never {
  throw new Error("what the function threw");
}
