import { silentLogger } from "@diskmesh/domain";
import { expect } from "chai";
import { Liveness } from "../agents/liveness.js";
import { configSchema } from "../config.js";
import { aHost, hostId, TestFleet } from "../testing/fleet-fixture.js";
import { HostMonitor } from "./host-monitor.js";
import type { WorkContext } from "./work-context.js";

const files = { caFile: "/ca", certFile: "/cert", keyFile: "/key" };
const config = configSchema.parse({
  listen: { host: "127.0.0.1", port: 0 },
  tls: files,
  tablet: { storage: "unused" },
  heartbeat: { intervalMs: 1_000, timeoutMs: 5_000 },
});

/** The states of a host that nobody hears, after sleeps that lasted as long as told. */
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
  const tablet = {
    read: async <T>(fn: (tables: TestFleet["tables"]) => T) => fn(fleet.tables),
    transact: async <T>(fn: Parameters<TestFleet["transact"]>[0]) => fleet.transact(fn) as T,
  };
  const liveness = new Liveness(clock, config.heartbeat);
  liveness.hear(hostId("h1"));
  const monitor = new HostMonitor({ config, clock, liveness, log: silentLogger, tablet } as unknown as WorkContext);
  await ended;
  await monitor.close();
  return states;
}

describe("the host monitor", () => {
  it("silent for longer than the timeout, look after look -> UNAVAILABLE", async () => {
    const states = await statesAfterSleeps([1_000, 1_000, 1_000, 1_000, 1_000, 1_000]);
    expect(states).to.deep.equal(["ONLINE", "ONLINE", "ONLINE", "ONLINE", "ONLINE", "UNAVAILABLE"]);
  });

  it("this process was busy for longer than the timeout -> no host's silence", async () => {
    const states = await statesAfterSleeps([1_000, 60_000, 1_000, 1_000, 1_000, 1_000]);
    expect(states).to.deep.equal(["ONLINE", "ONLINE", "ONLINE", "ONLINE", "ONLINE", "UNAVAILABLE"]);
  });
});
