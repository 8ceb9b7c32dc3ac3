import { FencedError, UnavailableError } from "@diskmesh/domain";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { type DocumentServer, LostAnswerError } from "./document-server.js";
import { Lease } from "./lease.js";
import { RetryPolicy } from "./retry-policy.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

const LEASE_TIME_MS = 1_000;
const SAFE_LEASE_TIME_MS = 800;

describe("Lease", () => {
  let clock: ManualClock;
  let server: DocumentServer;

  beforeEach(() => {
    clock = new ManualClock();
    server = idealServer();
  });

  function leaseOn(on: DocumentServer): Lease {
    const retryPolicy = new RetryPolicy({
      clock,
      signal: new AbortController().signal,
      serverName: "test",
      giveUpAfterMs: 10_000,
    });
    const times = { leaseTimeMs: LEASE_TIME_MS, safeLeaseTimeMs: SAFE_LEASE_TIME_MS };
    return new Lease({ server: on, tabletName: "registry", retryPolicy, clock, ...times });
  }

  function take(lease: Lease, writer: string): Promise<void> {
    return lease.take(writer, `${writer}:1`, { signal: new AbortController().signal, onStandby: () => {} });
  }

  async function holder(): Promise<unknown> {
    return (await server.get("tablets", "registry"))?.writer;
  }

  /** Wraps the server: runs the given operation at once but delays its answer. */
  function slow(operation: "get" | "update", delayMs: number): DocumentServer {
    const wait = (): Promise<void> => new Promise((resolve) => clock.after(delayMs, resolve));
    return changed(server, {
      get: async (...args) => {
        if (operation === "get") await wait();
        return server.get(...args);
      },
      update: async (...args) => {
        if (operation === "update") await wait();
        return server.update(...args);
      },
    });
  }

  it("is free at first, and taken at once", async () => {
    await take(leaseOn(server), "a");
    expect(await holder()).to.equal("a");
    expect(clock.monotonicMs()).to.equal(0);
  });

  it("is taken from a leader only when it was not renewed for the lease time since it was read", async () => {
    await take(leaseOn(server), "a");
    const taken = take(leaseOn(slow("get", 300)), "b");
    // The first read ends at 300 ms, and the server may have answered as late as that.
    await clock.passTo(300 + LEASE_TIME_MS);
    expect(await holder()).to.equal("a");
    await clock.passTo(300 + 2 * LEASE_TIME_MS);
    await taken;
    expect(await holder()).to.equal("b");
  });

  it("is watched for the whole lease time again after each read that shows a renewal", async () => {
    const a = leaseOn(server);
    await take(a, "a");
    const taken = take(leaseOn(slow("get", 300)), "b");
    await clock.passTo(500);
    await a.renew();
    // The second read, from 400 to 700 ms, sees the renewal.
    await clock.passTo(700 + LEASE_TIME_MS);
    expect(await holder()).to.equal("a");
    await clock.passTo(700 + 2 * LEASE_TIME_MS);
    await taken;
  });

  it("is taken by one of two candidates that find it free", async () => {
    let believed = false;
    void take(leaseOn(slow("update", 100)), "a").then(() => {
      believed = true;
    });
    await take(leaseOn(server), "b");
    await clock.passTo(LEASE_TIME_MS / 2);
    expect(believed).to.equal(false);
    expect(await holder()).to.equal("b");
  });

  it("is not taken from a leader that renewed it after the last read", async () => {
    const a = leaseOn(server);
    await take(a, "a");
    void take(leaseOn(slow("update", 100)), "b");
    await clock.passTo(LEASE_TIME_MS + 50);
    await a.renew();
    await clock.passTo(LEASE_TIME_MS + 500);
    expect(await holder()).to.equal("a");
  });

  it("is recognized as taken when the answer was lost", async () => {
    let updates = 0;
    const losing = changed(server, {
      update: async (...args) => {
        const done = await server.update(...args);
        if (updates++ === 0) throw new LostAnswerError("lost");
        return done;
      },
    });
    const taken = take(leaseOn(losing), "a");
    await clock.passTo(100);
    await taken;
    expect(updates).to.equal(2);
  });

  it("is not taken from a leader that renews it", async () => {
    const a = leaseOn(server);
    await take(a, "a");
    void take(leaseOn(server), "b");
    for (let i = 1; i <= 10; i++) {
      await clock.passTo(i * 900);
      await a.renew();
    }
    expect(await holder()).to.equal("a");
  });

  it("is valid for a part of its time, counted from when the renewal was sent", async () => {
    const a = leaseOn(slow("update", 100));
    const taken = take(a, "a");
    await clock.passTo(SAFE_LEASE_TIME_MS - 1);
    await taken;
    a.check();
    await clock.passTo(SAFE_LEASE_TIME_MS);
    expect(() => a.check()).to.throw(UnavailableError, "ran out");
    const renewed = a.renew();
    await clock.passTo(2 * SAFE_LEASE_TIME_MS - 1);
    await renewed;
    a.check();
    await clock.passTo(2 * SAFE_LEASE_TIME_MS);
    expect(() => a.check()).to.throw(UnavailableError, "ran out");
  });

  it("is not valid before it was taken and after it was cleared", async () => {
    const a = leaseOn(server);
    expect(() => a.check()).to.throw(UnavailableError);
    await take(a, "a");
    a.check();
    await a.clear();
    expect(() => a.check()).to.throw(UnavailableError);
    expect(await holder()).to.equal("");
  });

  it("is neither renewed, nor handed on, nor cleared by a leader that lost it", async () => {
    const a = leaseOn(server);
    await take(a, "a");
    await server.update("tablets", "registry", {}, { set: { writer: "b", address: "b:1" }, increment: "renewals" });
    for (const refused of [a.renew(), a.hand("a2")]) {
      await rejection(refused, FencedError, "taken by b:1");
    }
    await a.clear();
    expect(await holder()).to.equal("b");
  });

  it("is renewed under the new writer id when it is handed on meanwhile", async () => {
    const a = leaseOn(server);
    await take(a, "a");
    await Promise.all([a.renew(), a.hand("a2"), a.renew(), a.hand("a3"), a.renew()]);
    expect(await holder()).to.equal("a3");
  });

  it("reports the leader's address once", async () => {
    await take(leaseOn(server), "a");
    const told: string[] = [];
    const options = { signal: new AbortController().signal, onStandby: (address: string) => told.push(address) };
    void leaseOn(server).take("b", "b:1", options);
    await clock.passTo(LEASE_TIME_MS / 2);
    expect(told).to.deep.equal(["a:1"]);
  });
});
