import { servedElsewhere } from "@diskmesh/domain";
import { testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentClients, grpcAgents } from "./agent-clients.js";
import { aHost } from "./testing/fleet-fixture.js";

describe("AgentClients", () => {
  it("another registry may lead -> no client to order with, not even a known one", async () => {
    const certificates = await testCertificates({ hostIds: ["h1"] });
    let mayAct = true;
    const connect = grpcAgents({ tls: certificates.files("disk-registry"), defaultDeadlineMs: 1_000 });
    const agents = new AgentClients(connect, () => {
      if (!mayAct) throw servedElsewhere("the lease ran out");
    });
    agents.of(aHost("h1"));
    mayAct = false;
    expect(() => agents.of(aHost("h1"))).to.throw("the lease ran out");
    agents.close();
  });
});
