import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { parseAgents } from "./run-rebuild.js";

describe("the list of agents", () => {
  it("has a line for each, and may have comments and empty lines", () => {
    expect(parseAgents("# all\nhost-1 10.0.0.1:7040\n\n  host-2\thost-2.example:7040 # the second\n")).to.deep.equal([
      { hostId: "host-1", address: "10.0.0.1:7040" },
      { hostId: "host-2", address: "host-2.example:7040" },
    ]);
  });

  const wrong: readonly [text: string, why: string][] = [
    ["", "names no agent"],
    ["# host-1 10.0.0.1:7040", "names no agent"],
    ["host-1", 'line 1 is not "HOST-ID ADDRESS:PORT"'],
    ["host-1 10.0.0.1:7040 host-2", 'line 1 is not "HOST-ID ADDRESS:PORT"'],
    ["host-1 10.0.0.1", "line 1"],
    ["host/1 10.0.0.1:7040", "line 1"],
    ["host-1 10.0.0.1:7040\nhost-1 10.0.0.2:7040", "line 2 has host host-1 a second time"],
  ];
  for (const [text, why] of wrong)
    it(`refuses ${JSON.stringify(text)}`, () => {
      expect(() => parseAgents(text)).to.throw(InvalidArgumentError, why);
    });
});
