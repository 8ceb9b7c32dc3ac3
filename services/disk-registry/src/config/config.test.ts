import { expect } from "chai";
import { configSchema } from "./config.js";

describe("the registry's heartbeat config", () => {
  const problemsOf = (heartbeat: object): string[] => {
    const { error } = configSchema.safeParse({
      listen: { host: "127.0.0.1", port: 7030 },
      tls: { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem" },
      tablet: { storage: "/state" },
      heartbeat,
    });
    return error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`) ?? [];
  };
  const REFUSED = ["heartbeat: timeoutMs must be more than twice intervalMs"];
  for (const [what, heartbeat, problems] of [
    ["the defaults", {}, []],
    ["silence of two intervals and a bit", { intervalMs: 1_000, timeoutMs: 2_001 }, []],
    ["silence of two intervals", { intervalMs: 1_000, timeoutMs: 2_000 }, REFUSED],
    ["silence shorter than an interval", { intervalMs: 1_000, timeoutMs: 500 }, REFUSED],
  ] as const)
    it(`${what} -> ${problems.length === 0 ? "taken" : "refused"}`, () => {
      expect(problemsOf(heartbeat)).to.deep.equal(problems);
    });
});
