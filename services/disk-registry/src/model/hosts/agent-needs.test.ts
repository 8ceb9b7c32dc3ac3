import { expect } from "chai";
import { clockNeed, stillMissing } from "./agent-needs.js";

describe("the needs that an agent lacks", () => {
  const need = (name: string, why: string, sinceMs: number) => ({ need: name, why, sinceMs });

  it("keeps the start of a need that is missing for the same reason", () => {
    const before = [need("nats", "no user", 1), need("certificate", "ended", 2)];
    expect(stillMissing(before, [need("nats", "no user", 8), need("descriptors", "short", 9)])).to.deep.equal([
      need("nats", "no user", 1),
      need("descriptors", "short", 9),
    ]);
    expect(stillMissing(before, [need("nats", "no server", 8)])).to.deep.equal([need("nats", "no server", 8)]);
  });

  it("names both times when the clocks differ by more than a minute, and keeps the first times", () => {
    expect(clockNeed(60_000, 0, String)).to.equal(undefined);
    expect(clockNeed(0, 86_400_000, String)?.why).to.match(/showed 0 when the registry's showed 86400000$/);
    expect(stillMissing([need("clock", "first", 5)], [need("clock", "second", 6)])[0]?.why).to.equal("first");
  });
});
