import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import fc from "fast-check";
import { mbusPermissions } from "./permissions.js";
import {
  agentSubject,
  heartbeatSubject,
  parseHealthSubject,
  parseReplySubject,
  repliesSubject,
  replySubject,
} from "./subjects.js";

describe("subjects", () => {
  it("are built from ids", () => {
    expect(agentSubject("host-1")).to.equal("agent.host-1");
    expect(repliesSubject("d1")).to.equal("director.d1.>");
    expect(replySubject("d1", "host-1", "r1")).to.equal("director.d1.host-1.r1");
    expect(heartbeatSubject("host-1")).to.equal("hm.agent.heartbeat.host-1");
  });

  for (const id of ["", "*", ">", "a.b", "a b", "a\r\nPUB x", "a\0", "../a", "x".repeat(65)])
    it(`are never built from ${JSON.stringify(id.slice(0, 12))}`, () => {
      for (const build of [agentSubject, repliesSubject, heartbeatSubject])
        expect(() => build(id)).to.throw(InvalidArgumentError);
      expect(() => replySubject(id, "host-1", "r1")).to.throw(InvalidArgumentError);
      expect(() => replySubject("d1", id, "r1")).to.throw(InvalidArgumentError);
      expect(() => replySubject("d1", "host-1", id)).to.throw(InvalidArgumentError);
      expect(() => mbusPermissions({ role: "disk-agent", name: id })).to.throw(InvalidArgumentError);
    });

  it("of replies are parsed", () => {
    const address = { directorId: "d1", agentId: "host-1", requestId: "r1" };
    expect(parseReplySubject("director.d1.host-1.r1")).to.deep.equal(address);
  });

  for (const subject of [
    "",
    "director",
    "director.d1.host-1",
    "director.d1.host-1.r1.x",
    "agent.d1.host-1.r1",
    "director.*.host-1.>",
    "director..host-1.r1",
  ])
    it(`of replies do not match ${JSON.stringify(subject)}`, () => {
      expect(parseReplySubject(subject)).to.equal(undefined);
    });

  it("of replies are parsed from any text only when they were built so", () => {
    const token = fc.oneof(fc.constantFrom("director", "d1", "host-1", "*", ">", ""), fc.string());
    fc.assert(
      fc.property(fc.array(token, { maxLength: 5 }), (tokens) => {
        const subject = tokens.join(".");
        const address = parseReplySubject(subject);
        if (address === undefined) return;
        expect(replySubject(address.directorId, address.agentId, address.requestId)).to.equal(subject);
      }),
      { numRuns: 200 },
    );
  });

  it("of heartbeats name the agent", () => {
    expect(parseHealthSubject("heartbeat", "hm.agent.heartbeat.host-1")).to.equal("host-1");
    expect(parseHealthSubject("heartbeat", "hm.agent.heartbeat.host-1.x")).to.equal(undefined);
    expect(parseHealthSubject("heartbeat", "hm.agent.alert.host-1")).to.equal(undefined);
  });

  it("are not granted to operators", () => {
    expect(() => mbusPermissions({ role: "operator", name: "" })).to.throw(InvalidArgumentError, "operator");
  });
});
