import { expect } from "chai";
import { directorConfig } from "./config.js";
import { lockDeadlineMs } from "./model/time-limits.js";

const parsed = (change: object) =>
  directorConfig.safeParse({
    listen: { host: "127.0.0.1", port: 0 },
    tls: { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem" },
    tablet: { storage: "/state" },
    dispatcher: { address: "127.0.0.1:7020" },
    nats: { servers: ["127.0.0.1:4222"] },
    ...change,
  });

describe("time limits of the director's config", () => {
  const ACCEPTED: [string, object, number][] = [
    ["the defaults", {}, 1_440_000],
    ["longer CPI calls -> locks last longer", { cpi: { callTimeoutMs: 1_000_000 } }, 2_120_000],
    ["a request to an agent that is the longest", { agents: { attachTimeoutMs: 2_000_000 } }, 2_060_000],
    ["a deadline of its own", { locks: { deadlineMs: 1_380_001 } }, 1_380_001],
    // Agents are asked again and again: each time is a sign of life.
    ["an agent that may take longer than a lock", { agents: { readyTimeoutMs: 3_600_000 } }, 1_440_000],
  ];
  for (const [what, change, deadlineMs] of ACCEPTED)
    it(`${what} -> locks are overdue after ${deadlineMs} ms`, () => {
      const { data, error } = parsed(change);
      expect(error).to.equal(undefined);
      expect(data && lockDeadlineMs(data)).to.equal(deadlineMs);
    });

  const REFUSED: [string, object, string][] = [
    ["a lock deadline within a CPI call", { locks: { deadlineMs: 240_000 } }, "locks.deadlineMs must be above 1380000"],
    [
      "a lock deadline within a request to an agent",
      { cpi: { callTimeoutMs: 1_000, retryTimeoutMs: 1_000 }, locks: { deadlineMs: 60_000 } },
      "locks.deadlineMs must be above 60000",
    ],
    [
      "disk tasks shorter than a CPI call",
      { queues: { dynamicDisks: { taskTimeoutMs: 600_000 } } },
      "queues.dynamicDisks.taskTimeoutMs must be above 1380000",
    ],
    [
      "deploys shorter than an agent's start",
      { queues: { normal: { taskTimeoutMs: 4_000_000 } }, agents: { readyTimeoutMs: 4_000_000 } },
      "queues.normal.taskTimeoutMs must be above 4000000: an agent may take agents.readyTimeoutMs",
    ],
    [
      "deploys shorter than the making of a stemcell",
      { queues: { normal: { taskTimeoutMs: 3_600_000 } } },
      "queues.normal.taskTimeoutMs must be above 3600000: a CPI may take stemcells.createTimeoutMs",
    ],
  ];
  for (const [what, change, says] of REFUSED)
    it(`${what} -> refused: ${says}`, () => {
      const issues = parsed(change).error?.issues.map(({ path, message }) => `${path.join(".")} ${message}`) ?? [];
      expect(issues).to.have.lengthOf(1);
      expect(issues[0]).to.include(says);
    });
});
