import { type DomainError, InvalidStateError, servedElsewhere, UnavailableError } from "@diskmesh/domain";
import { testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { aHost, leader } from "../testing/fleet-fixture.js";
import { AgentClients, grpcAgents } from "./agent-clients.js";

describe("AgentClients", () => {
  const leading = () => leader;
  const knowsAll = {
    leader: leading,
    knows: () => true,
    hear: async () => {},
    hearRefusal: async () => {},
    requireLeads: () => {},
  };
  const order = { leader, deadlineMs: 1_000 };
  let connect: ReturnType<typeof grpcAgents>;

  before(async () => {
    const certificates = await testCertificates({ hostIds: ["h1"] });
    connect = grpcAgents({ tls: certificates.files("disk-registry"), defaultDeadlineMs: 1_000 });
  });

  it("another process may lead the tablet, or another registry the fleet -> no order, not even to a known agent", async () => {
    let [lease, fleet] = ["", ""];
    const requireLeads = () => {
      if (fleet !== "") throw new InvalidStateError(fleet);
    };
    const agents = new AgentClients(connect, { ...knowsAll, requireLeads }, () => {
      if (lease !== "") throw servedElsewhere(lease);
    });
    expect(await agents.order(aHost("h1"), order, async () => "sent")).to.equal("sent");
    lease = "the lease ran out";
    expect(await failure(agents.order(aHost("h1"), order, async () => "sent"))).to.equal(lease);
    [lease, fleet] = ["", "another registry leads this fleet"];
    expect(await failure(agents.order(aHost("h1"), order, async () => "sent"))).to.equal(fleet);
    agents.close();
  });

  it("an agent that has not told what it remembers, and cannot be asked -> no order", async () => {
    const agents = new AgentClients(connect, { ...knowsAll, knows: () => false }, () => {});
    const nobody = { ...aHost("h1"), address: "127.0.0.1:1" };
    expect(await failure(agents.order(nobody, order, async () => "sent"))).to.contain(
      "was not asked what it remembers",
    );
    agents.close();
  });

  it("planned under a generation that is over -> no order", async () => {
    const later = { ...leader, tabletGeneration: leader.tabletGeneration + 1 };
    const agents = new AgentClients(connect, { ...knowsAll, leader: () => later }, () => {});
    expect(await failure(agents.order(aHost("h1"), order, async () => "sent"))).to.contain("another generation");
    agents.close();
  });

  it("an agent that refuses -> what it says is heard before the order has failed", async () => {
    const heard: string[] = [];
    const hearRefusal = async (hostId: string, { about }: DomainError) => {
      heard.push(`${hostId} ${about.incarnation}`);
    };
    const agents = new AgentClients(connect, { ...knowsAll, hearRefusal }, () => {});
    const refused = new UnavailableError("refused", { about: { incarnation: "other" } });
    expect(await failure(agents.order(aHost("h1"), order, () => Promise.reject(refused)))).to.equal("refused");
    expect(heard).to.deep.equal(["h1 other"]);
    agents.close();
  });
});

const failure = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "it did not fail",
    (error: Error) => error.message,
  );
