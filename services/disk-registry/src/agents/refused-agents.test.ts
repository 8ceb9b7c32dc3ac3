import { expect } from "chai";
import { hostId } from "../testing/fleet-fixture.js";
import { RefusedAgents } from "./refused-agents.js";

describe("refused agents", () => {
  let nowMs: number;
  let refused: RefusedAgents;

  beforeEach(() => {
    nowMs = 1_000;
    refused = new RefusedAgents({ nowMs: () => nowMs } as never);
  });
  const refuse = (name: string, reason = "another authority's", role: "disk-agent" | "operator" = "disk-agent") =>
    refused.connectionRefused({ remoteAddress: "10.0.0.7", reason, claimed: { role, name } });
  const of = (name: string) => refused.of(hostId(name));

  it("are kept by the host in their certificate, with the time since which the reason is the same", () => {
    refuse("h1");
    nowMs = 5_000;
    refuse("h1");
    const message = "a client at 10.0.0.7 is refused: another authority's";
    expect(of("h1")).to.deep.equal({ message, sinceMs: 1_000, lastAtMs: 5_000 });
    refuse("h1", "ended");
    expect(of("h1")).to.include({ sinceMs: 5_000, lastAtMs: 5_000 });
    refused.claimRefused(hostId("h1"), "h2", "disk-agent h2 speaks for it");
    expect(of("h1")?.message).to.equal("an agent is refused: disk-agent h2 speaks for it");
    expect(of("h2")).to.equal(undefined);
    expect(refused.registrationOf(hostId("h1"))).to.equal(undefined);
    expect(refused.registrationOf(hostId("h2"))?.message).to.match(
      /host h2, whose config says hostId: h1: disk-agent h2/,
    );
    refused.registrationTaken(hostId("h2"), "10.0.0.7:7040");
    expect(refused.registrationOf(hostId("h2"))).to.equal(undefined);
  });

  it("are not kept when the certificate names nobody, no agent, or no valid id", () => {
    refused.connectionRefused({ remoteAddress: "10.0.0.7", reason: "the handshake failed" });
    refuse("h1", "revoked", "operator");
    for (const name of ["", "../h1", "h1\u001b[2J", "h".repeat(65)]) {
      refuse(name);
      expect(refused.of(name as never), JSON.stringify(name)).to.equal(undefined);
    }
    expect(of("h1")).to.equal(undefined);
  });

  it("are forgotten after a while", () => {
    refuse("h1");
    nowMs += 600_000;
    expect(of("h1")).not.to.equal(undefined);
    nowMs += 1;
    expect(of("h1")).to.equal(undefined);
    refuse("h1");
    expect(of("h1")).to.include({ sinceMs: nowMs });
  });

  it("under invented names evict only older refusals", () => {
    refuse("h1");
    for (let count = 0; count < 999; count++) refuse(`invented-${count}`);
    refuse("h1");
    for (let count = 999; count < 1_998; count++) refuse(`invented-${count}`);
    expect(of("h1")).not.to.equal(undefined);
    expect(of("invented-998")).to.equal(undefined);
    refuse("one-more");
    expect(of("h1")).to.equal(undefined);
    expect(of("invented-999")).not.to.equal(undefined);
  });
});
