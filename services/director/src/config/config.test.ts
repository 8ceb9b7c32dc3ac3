import { expect } from "chai";
import { directorConfig } from "./config.js";
import { DIRECTOR_LIMITS } from "./limits.js";
import { lockDeadlineMs, longestActMs } from "./time-limits.js";

const parsed = (change: object) =>
  directorConfig.safeParse({
    listen: { host: "127.0.0.1", port: 0 },
    tls: { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem" },
    tablet: { storage: "/state" },
    dispatcher: { address: "127.0.0.1:7020" },
    nats: { servers: ["127.0.0.1:4222"] },
    ...change,
  });

const LONGEST = { cpi: { callTimeoutMs: 1_740_000 }, agents: { readyTimeoutMs: 43_200_000 } };

describe("time limits of the director's config", () => {
  const times = ({ cpi }: typeof LONGEST) => ({
    cpi: { ...cpi, ...DIRECTOR_LIMITS.cpi },
    agents: DIRECTOR_LIMITS.agents,
  });

  it("the longest time limits are accepted, and every task can end within them", () => {
    const { data, error } = parsed(LONGEST);
    expect(error).to.equal(undefined);
    const { timeoutsMs } = DIRECTOR_LIMITS.queues;
    const actMs = longestActMs(times(LONGEST));
    for (const queue of ["urgent", "normal", "dynamic_disks"] as const)
      expect(timeoutsMs[queue], queue).to.be.above(actMs);
    expect(timeoutsMs.normal).to.be.above(data?.agents.readyTimeoutMs ?? Number.NaN);
    expect(timeoutsMs.normal).to.be.above(DIRECTOR_LIMITS.stemcells.createTimeoutMs);
  });

  const REFUSED: [string, object, string][] = [
    ["CPI calls that outlast tasks of dynamic disks", { cpi: { callTimeoutMs: 1_740_001 } }, "cpi.callTimeoutMs"],
    ["an agent's start that outlasts deploys", { agents: { readyTimeoutMs: 43_200_001 } }, "agents.readyTimeoutMs"],
  ];
  for (const [what, change, path] of REFUSED)
    it(`refuses ${what}`, () => {
      expect(parsed(change).error?.issues.map((issue) => issue.path.join("."))).to.deep.equal([path]);
    });

  for (const [callTimeoutMs, deadlineMs] of [
    [660_000, 1_440_000],
    [1_000_000, 2_120_000],
  ] as const)
    it(`locks are overdue after ${deadlineMs} ms when CPI calls may take ${callTimeoutMs} ms`, () => {
      expect(lockDeadlineMs(times({ ...LONGEST, cpi: { callTimeoutMs } }))).to.equal(deadlineMs);
    });

  it("the deadline of locks is a minute after the longest act, here a request to an agent", () => {
    const { cpi, agents } = times(LONGEST);
    expect(lockDeadlineMs({ cpi, agents: { ...agents, attachTimeoutMs: 4_000_000 } })).to.equal(4_060_000);
  });
});
