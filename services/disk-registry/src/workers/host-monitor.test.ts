import { silentLogger, systemClock } from "@diskmesh/domain";
import { expect } from "chai";
import { Liveness } from "../agents/liveness.js";
import { RefusedAgents } from "../agents/refused-agents.js";
import { configSchema } from "../config/config.js";
import { REGISTRY_LIMITS as limits } from "../config/limits.js";
import { isPlaceable, NOBODY_SUSPECTED } from "../model/disks/placement.js";
import { sayOfHosts } from "../model/hosts/host-words.js";
import type { Publication } from "../model/store/schema.js";
import { aDevice, aDisk, aHost, diskId, hostId, TestFleet } from "../testing/fleet-fixture.js";
import { HostMonitor } from "./host-monitor.js";
import type { WorkContext } from "./work-context.js";

const files = { caFile: "/ca", certFile: "/cert", keyFile: "/key" };
const config = configSchema.parse({
  listen: { host: "127.0.0.1", port: 0 },
  tls: files,
  tablet: { storage: "unused" },
  heartbeat: { intervalMs: 1_000, timeoutMs: 5_000 },
});

/** Returns the states of a silent host, read after each of the sweeps, which follow sleeps of the given lengths. */
async function statesAfterSleeps(sleepsMs: readonly number[]): Promise<readonly string[]> {
  const fleet = new TestFleet({ hosts: [aHost("h1")] });
  const left = [...sleepsMs];
  const states: string[] = [];
  let elapsedMs = 0;
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const clock = {
    ...systemClock,
    nowMs: () => elapsedMs,
    monotonicMs: () => elapsedMs,
    async sleep(_ms: number, signal?: AbortSignal): Promise<void> {
      if (elapsedMs > 0) states.push(fleet.host("h1").state);
      const next = left.shift();
      if (next !== undefined) {
        elapsedMs += next;
        return;
      }
      end();
      await new Promise<void>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
    },
  };
  const { tablet } = fleet;
  const liveness = new Liveness(clock, config.heartbeat);
  liveness.hear(hostId("h1"));
  const refusedAgents = new RefusedAgents(clock);
  const work = { config, limits, clock, liveness, log: silentLogger, tablet, refusedAgents, fleet: {} };
  const monitor = new HostMonitor(work as unknown as WorkContext);
  await monitor.begin();
  await ended;
  await monitor.close();
  return states;
}

/** Ten hosts over one store, led by one process after the other. The test controls time. */
class Leaders {
  readonly fleet = new TestFleet({
    hosts: Array.from({ length: 10 }, (_, index) => aHost(`h${index}`)),
    devices: [
      aDevice("d0", { hostId: hostId("h0"), diskId: diskId("x") }),
      aDevice("d9", { hostId: hostId("h9"), attachState: "CLOSING" }),
      aDevice("e9", { hostId: hostId("h9"), dirty: true, removalRequested: true }),
    ],
    disks: [aDisk("x", ["d0"], { publication: publishedWithFence("h9") })],
  });
  readonly fenced: string[] = [];
  /** Hosts of all `seenOtherwise` notifications, in order. */
  readonly seenOtherwise: string[] = [];
  readonly registryFleet: { standsStill?: string } = {};
  refusedAgents: RefusedAgents | undefined;
  monitor: HostMonitor | undefined;
  #nowMs = 1_000_000;
  #clockIsAheadMs = 0;
  #liveness: Liveness | undefined;

  async begin(): Promise<void> {
    await this.monitor?.close();
    const clock = {
      ...systemClock,
      nowMs: () => this.#nowMs + this.#clockIsAheadMs,
      monotonicMs: () => this.#nowMs,
      sleep: (_ms: number, signal?: AbortSignal) =>
        new Promise<void>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
    };
    const { tablet } = this.fleet;
    const liveness = new Liveness(clock, config.heartbeat);
    this.#liveness = liveness;
    const refusedAgents = new RefusedAgents(clock);
    this.refusedAgents = refusedAgents;
    const work = {
      config,
      limits,
      clock,
      liveness,
      log: silentLogger,
      tablet,
      refusedAgents,
      fleet: this.registryFleet,
    };
    const fenced = (diskIds: readonly string[]) => this.fenced.push(...diskIds);
    const seenOtherwise = (hostIds: readonly string[]) => this.seenOtherwise.push(...hostIds);
    this.monitor = new HostMonitor(work as unknown as WorkContext, {
      online: () => {},
      unavailable: () => {},
      fenced,
      seenOtherwise,
    });
    await this.monitor.begin();
  }

  /** Advances time while the first `heard` hosts send heartbeats. */
  async pass(ms: number, heard: number): Promise<void> {
    for (const untilMs = this.#nowMs + ms; this.#nowMs < untilMs; ) {
      this.#nowMs += 500;
      for (let index = 0; index < heard; index++) this.#liveness?.hear(hostId(`h${index}`));
      await this.monitor?.look();
    }
  }

  /** Sets the wall clock. */
  setClock(changeMs: number): void {
    this.#clockIsAheadMs += changeMs;
  }

  /** Advances time without a leader. */
  async away(ms: number): Promise<void> {
    await this.monitor?.close();
    this.#nowMs += ms;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  get unavailable(): number {
    return [...this.fleet.tables.hosts.entries()].filter(({ state }) => state === "UNAVAILABLE").length;
  }
}

function publishedWithFence(host: string): Publication {
  const published = { state: "PUBLISHED", sessionNumber: 1, exportPath: "/x", attempts: 0, lastError: "" } as const;
  return { hostId: hostId(host), ...published, onHostSilence: "FENCE" };
}

describe("host monitors of one leader after the other", () => {
  let leaders: Leaders;

  beforeEach(async () => {
    leaders = new Leaders();
    await leaders.begin();
  });

  afterEach(() => leaders.monitor?.close());

  it("a silence of fewer than half makes hosts UNAVAILABLE and fences them", async () => {
    await leaders.pass(6_000, 6);
    expect(leaders.unavailable).to.equal(4);
    expect(leaders.fenced).to.deep.equal(["x"]);
  });

  describe("with a host in maintenance", () => {
    const announce = (forMs: number) =>
      leaders.fleet.transact((tx) => {
        const said = { by: "ada", atMs: leaders.nowMs, reason: "memory", untilMs: leaders.nowMs + forMs };
        return sayOfHosts(tx, [hostId("h9")], "maintenance", said);
      });
    const h9 = () => leaders.fleet.host("h9");

    it("its silence fences nothing before the time is over, and then at once", async () => {
      announce(60_000);
      await leaders.pass(59_500, 9);
      expect([h9().state, leaders.fenced]).to.deep.equal(["ONLINE", []]);
      await leaders.pass(500, 9);
      expect([h9().state, h9().maintenance, leaders.fenced]).to.deep.equal(["UNAVAILABLE", undefined, ["x"]]);
    });

    it("it is over when the host is back after a silence, and not before", async () => {
      announce(60_000);
      await leaders.pass(10_000, 10);
      expect(h9().maintenance, "not yet away").not.to.equal(undefined);
      await leaders.pass(10_000, 9);
      expect(h9().maintenance, "away").not.to.equal(undefined);
      await leaders.pass(500, 10);
      expect([h9().state, h9().maintenance]).to.deep.equal(["ONLINE", undefined]);
      await leaders.pass(6_000, 9);
      expect([h9().state, leaders.fenced]).to.deep.equal(["UNAVAILABLE", ["x"]]);
    });

    it("the next leader honours it, and another announcement lengthens it", async () => {
      announce(10_000);
      await leaders.pass(8_000, 9);
      await leaders.begin();
      announce(30_000);
      await leaders.pass(29_500, 9);
      expect([h9().state, leaders.fenced]).to.deep.equal(["ONLINE", []]);
      await leaders.pass(500, 9);
      expect([h9().state, leaders.fenced]).to.deep.equal(["UNAVAILABLE", ["x"]]);
    });

    it("an operator ends it, or declares the host dead", async () => {
      for (const word of ["back", "dead"] as const) {
        announce(60_000);
        expect(isPlaceable(h9(), NOBODY_SUSPECTED)).to.equal(false);
        leaders.fleet.transact((tx) =>
          sayOfHosts(tx, [hostId("h9")], word, { by: "ada", atMs: leaders.nowMs, reason: "" }),
        );
        expect(h9().maintenance, word).to.equal(undefined);
        expect(isPlaceable(h9(), NOBODY_SUSPECTED)).to.equal(word === "back");
      }
    });

    it("its silence is no part of a mass silence", async () => {
      announce(60_000);
      await leaders.pass(6_000, 4);
      expect(leaders.unavailable, "five of nine").to.equal(5);
    });
  });

  it("such a silence after a former leader's mass silence makes them UNAVAILABLE later, and fences none", async () => {
    await leaders.pass(6_000, 4);
    expect(leaders.unavailable).to.equal(0);
    await leaders.begin();
    await leaders.pass(9_000, 6);
    expect(leaders.unavailable, "they may come back still").to.equal(0);
    await leaders.pass(6_000, 6);
    expect(leaders.unavailable).to.equal(4);
    expect(leaders.fenced).to.deep.equal([]);
  });

  it("a silence counts as usual when all hosts were heard before that leader began, or since", async () => {
    await leaders.pass(6_000, 4);
    await leaders.begin();
    await leaders.pass(8_000, 10);
    await leaders.begin();
    await leaders.pass(6_000, 6);
    expect(leaders.unavailable).to.equal(4);
    expect(leaders.fenced).to.deep.equal(["x"]);
  });

  it("a host's suspicion and a mass silence are notified when they begin and when they end", async () => {
    await leaders.pass(3_000, 9);
    expect(leaders.seenOtherwise).to.deep.equal(["h9"]);
    await leaders.pass(3_000, 10);
    expect(leaders.seenOtherwise.splice(0)).to.deep.equal(["h9", "h9"]);
    await leaders.pass(6_000, 4);
    const silent = ["h4", "h5", "h6", "h7", "h8", "h9"];
    expect(leaders.seenOtherwise, "first as silent, then as part of a mass silence").to.deep.equal([
      ...silent,
      ...silent,
    ]);
    expect(leaders.unavailable).to.equal(0);
  });

  it("a repeatedly refused registration is notified when it begins, and once it is forgotten", async () => {
    const refuse = () => leaders.refusedAgents?.registrationRefused(hostId("h1"), "10.0.0.8:7040", "why");
    for (let tries = 0; tries < 5; tries++) {
      refuse();
      await leaders.pass(1_000, 10);
    }
    expect(leaders.seenOtherwise).to.deep.equal(["h1"]);
    await leaders.pass(700_000, 10);
    expect(leaders.seenOtherwise).to.deep.equal(["h1", "h1"]);
  });

  it("a registry that stands still notifies once about all hosts", async () => {
    leaders.registryFleet.standsStill = "another registry leads this fleet";
    await leaders.pass(3_000, 10);
    expect(leaders.seenOtherwise).to.have.length(10);
  });

  it("only listening time, summed over all leaders, ends a removal, not a changed clock or time without a leader", async () => {
    const isOver = () => {
      const [closing, toBeErased] = ["d9", "e9"].map((id) => leaders.fleet.device(id).attachState === "DETACHED");
      expect(closing).to.equal(toBeErased);
      return closing;
    };
    await leaders.pass(6_000, 6);
    leaders.setClock(7_200_000);
    await leaders.pass(1_000, 6);
    expect(isOver(), "a clock two hours ahead").to.equal(false);
    leaders.setClock(-7_200_000);
    await leaders.away(100_000_000);
    await leaders.begin();
    await leaders.pass(1_000, 6);
    expect(isOver(), "nobody led").to.equal(false);
    for (let leader = 1; leader <= 3; leader++) {
      await leaders.pass(config.unavailableRemovalTimeoutMs / 3 - 15_000, 6);
      expect(isOver(), `leader ${leader}`).to.equal(false);
      await leaders.begin();
    }
    await leaders.pass(100_000, 6);
    expect(isOver()).to.equal(true);
  });
});

describe("the host monitor", () => {
  it("makes a host UNAVAILABLE that is silent for longer than the timeout in every sweep", async () => {
    const states = await statesAfterSleeps([1_000, 1_000, 1_000, 1_000, 1_000, 1_000]);
    expect(states).to.deep.equal(["ONLINE", "ONLINE", "ONLINE", "ONLINE", "ONLINE", "UNAVAILABLE"]);
  });

  it("does not count time in which the process was busy as silence", async () => {
    const states = await statesAfterSleeps([1_000, 60_000, 1_000, 1_000, 1_000, 1_000]);
    expect(states).to.deep.equal(["ONLINE", "ONLINE", "ONLINE", "ONLINE", "ONLINE", "UNAVAILABLE"]);
  });
});
