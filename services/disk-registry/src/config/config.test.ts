import { expect } from "chai";
import { configSchema } from "./config.js";

const problemsOf = (change: object): string[] => {
  const { error } = configSchema.safeParse({
    listen: { host: "127.0.0.1", port: 7030 },
    tls: { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem" },
    tablet: { storage: "/state" },
    ...change,
  });
  return error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`) ?? [];
};

describe("the registry's join config", () => {
  const listen = { host: "10.0.0.5", port: 7023 };
  const authority = { certFile: "/hosts-ca.pem", keyFile: "/hosts-ca-key.pem" };
  for (const [what, join, key] of [
    ["no listen address", { authority }, "join.listen"],
    ["a port that no address has", { listen: { ...listen, port: 70_000 }, authority }, "join.listen.port"],
    ["a host that is a number", { listen: { ...listen, host: 5 }, authority }, "join.listen.host"],
    ["no authority", { listen }, "join.authority"],
    ["an authority without a key", { listen, authority: { certFile: "/hosts-ca.pem" } }, "join.authority.keyFile"],
    ["an empty certificate file", { listen, authority: { ...authority, certFile: "" } }, "join.authority.certFile"],
    ["authorities in a caFile", { listen, authority: { ...authority, caFile: "/ca.pem" } }, "join.authority"],
  ] as const)
    it(`${what} -> refused`, () => {
      const [problem, ...others] = problemsOf({ join });
      expect(problem, key).to.match(new RegExp(`^${key.replaceAll(".", "\\.")}:`));
      expect(others).to.deep.equal([]);
    });
  it("an address and an authority -> taken", () =>
    void expect(problemsOf({ join: { listen, authority } })).to.deep.equal([]));
});

describe("the registry's heartbeat config", () => {
  const REFUSED = ["heartbeat: timeoutMs must be more than twice intervalMs"];
  for (const [what, heartbeat, problems] of [
    ["the defaults", {}, []],
    ["silence of two intervals and a bit", { intervalMs: 1_000, timeoutMs: 2_001 }, []],
    ["silence of two intervals", { intervalMs: 1_000, timeoutMs: 2_000 }, REFUSED],
    ["silence shorter than an interval", { intervalMs: 1_000, timeoutMs: 500 }, REFUSED],
  ] as const)
    it(`${what} -> ${problems.length === 0 ? "taken" : "refused"}`, () => {
      expect(problemsOf({ heartbeat })).to.deep.equal(problems);
    });
});
