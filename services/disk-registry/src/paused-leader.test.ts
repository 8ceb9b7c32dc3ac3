import { setTimeout as delay } from "node:timers/promises";
import { OrderOutcome } from "@diskmesh/api/internal";
import { Health } from "@diskmesh/api/registry";
import { type DatabaseProcess, documentDatabase } from "@diskmesh/tablet/testing";
import { eventually, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestRegistries } from "./testing/test-registries.js";

/**
 * Long enough for the steps before the pause, and shorter than the time after which agents close a silent connection.
 */
const LEASE_TIME_MS = 8_000;
/** A failed order is retried after half to all of this time. */
const ORDER_BACKOFF_MS = 1_500;
const PATIENCE = { timeoutMs: 120_000 };

describe("a registry paused between reading an order and sending it", () => {
  let url: string;
  let database: DatabaseProcess;
  let registries: TestRegistries | undefined;

  before(async function () {
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    if (found.process === undefined) return skipBecause(this, "the database server is not this test's to stop");
    [url, database] = [found.url, found.process];
  });
  afterEach(async () => {
    database?.signal("SIGCONT");
    await registries?.stop();
  });

  it("sends nothing when it resumes while another one leads", async () => {
    const backoff = { minDelayMs: ORDER_BACKOFF_MS, maxDelayMs: ORDER_BACKOFF_MS };
    registries = await TestRegistries.start(url, LEASE_TIME_MS, { backoff });
    const { first, second } = registries;
    const operator = registries.operator();
    const agent = await registries.agent("h1", ["d1"]);
    agent.before = async (kind) => (kind === "attach" ? OrderOutcome.IO_ERROR : undefined);
    await registries.agent("h2", ["d2"]);
    await operator.addHost({ hostId: "h1" });
    await eventually(() => agent.received.some(({ kind }) => kind === "attach"), PATIENCE);
    const attempts = async (): Promise<number> => (await operator.getDevice({ deviceId: "d1" })).device?.attempts ?? 0;
    const old = agent.received.at(-1)?.tabletGeneration ?? 0;
    let changing: Promise<unknown>;
    for (let round = 1; ; round++) {
      const before = await attempts();
      let failed = before;
      const hasFailedAgain = async (): Promise<boolean> => {
        failed = await attempts();
        return failed > before;
      };
      await eventually(hasFailedAgain, { ...PATIENCE, everyMs: 20 });
      // From now on commits wait, and reads of changed documents wait for the commits. So the next order waits, too.
      database.signal("SIGSTOP");
      const said = { deviceIds: ["d2"], health: Health.WARNING, reason: `round ${round}` };
      changing = operator.setDeviceState(said).catch(() => {});
      await delay(ORDER_BACKOFF_MS + 500);
      // On a busy machine the order may have been sent before the pause; the test then tries again.
      if (agent.received.filter(({ kind }) => kind === "attach").length === failed) break;
      database.signal("SIGCONT");
      await changing;
    }
    first.signal("SIGSTOP");
    // The database completes the commit, and its answer waits for the paused process.
    database.signal("SIGCONT");
    await eventually(() => second.logs.includes("leadership gained"), PATIENCE);
    const received = agent.received.length;
    first.signal("SIGCONT");
    await eventually(() => first.logs.includes("leadership lost"), PATIENCE);
    await changing;
    // After two orders of the new leader, an order of the former leader would have arrived.
    const ofNew = () => agent.received.filter((order) => order.tabletGeneration > old).length;
    await eventually(() => ofNew() >= 2, PATIENCE);
    expect(agent.received.slice(received).filter((order) => order.tabletGeneration <= old)).to.deep.equal([]);
    // The process notices first either the end of its lease or the awaited state; both messages are correct.
    const keptBack = /the lease ran out.*"attach order failed"|"queue":"orders".*the lease ran out.*"work item failed/;
    expect(first.logs, "the order was about to be sent").to.match(keptBack);
  });
});
