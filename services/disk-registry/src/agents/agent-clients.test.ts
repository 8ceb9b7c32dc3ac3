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

  it("sends no order, not even to a known agent, while another process may lead the tablet or another registry the fleet", async () => {
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

  it("sends no order to an agent that has not reported its numbers and cannot be asked for them", async () => {
    const agents = new AgentClients(connect, { ...knowsAll, knows: () => false }, () => {});
    const nobody = { ...aHost("h1"), address: "127.0.0.1:1" };
    expect(await failure(agents.order(nobody, order, async () => "sent"))).to.contain(
      "the memory of host h1 was not read",
    );
    agents.close();
  });

  it("sends no order that was planned under a former generation", async () => {
    const later = { ...leader, tabletGeneration: leader.tabletGeneration + 1 };
    const agents = new AgentClients(connect, { ...knowsAll, leader: () => later }, () => {});
    expect(await failure(agents.order(aHost("h1"), order, async () => "sent"))).to.contain("another generation");
    agents.close();
  });

  it("takes in the reason of an agent's refusal before the order fails", async () => {
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
