import { REDACTED as R } from "@diskmesh/domain";
import { expect } from "chai";
import type { CpiMethod } from "./methods.js";
import { redactedRequest, secretEnv } from "./redacted-request.js";

describe("a request in a log", () => {
  const rows: [method: CpiMethod, args: unknown[], shown: unknown[]][] = [
    [
      "create_vm",
      [
        "agent",
        "stemcell",
        { instance: "m1", nested: { key: "s" } },
        { a: { type: "manual", ip: "10.0.0.1", cloud_properties: { subnet: "s" } }, b: { type: "vip" } },
        ["disk"],
        { top: "s", bosh: { group: "g", groups: ["g"], tags: { t: "v" }, password: "s", mbus: { cert: "s" } } },
      ],
      [
        "agent",
        "stemcell",
        { instance: R, nested: R },
        { a: { type: "manual", ip: "10.0.0.1", cloud_properties: { subnet: R } }, b: { type: "vip" } },
        ["disk"],
        { top: R, bosh: { group: "g", groups: ["g"], tags: { t: "v" }, password: R, mbus: R } },
      ],
    ],
    ["create_disk", [1024, { type: "ssd", key: "s" }, "vm"], [1024, { type: R, key: R }, "vm"]],
    ["update_disk", ["disk", 1024, { key: "s" }], ["disk", 1024, { key: R }]],
    ["create_stemcell", ["/image", { key: "s" }], ["/image", { key: R }]],
    ["delete_vm", ["vm"], ["vm"]],
    ["attach_disk", ["vm", "disk"], ["vm", "disk"]],
  ];
  for (const [method, args, shown] of rows)
    it(`${method} shows its objects, and redacts the rest`, () => {
      const context = { director_uuid: "d", request_id: "r", password: "s", vm: { stemcell: { api_version: 2 } } };
      expect(redactedRequest(method, args, context, ["password"])).to.deep.equal({
        method,
        arguments: shown,
        context: { ...context, password: R },
      });
    });

  it("redacts a property that overrides the director's context", () => {
    expect(redactedRequest("info", [], { request_id: "s" }, ["request_id"]).context).to.deep.equal({ request_id: R });
  });

  it("redacts env, except for the VM's name", () => {
    expect(secretEnv({ a: 1, bosh: { group: "g", groups: [], tags: {}, password: "p" } })).to.deep.equal({
      a: 1,
      bosh: { password: "p" },
    });
    expect(secretEnv({ bosh: "odd" })).to.deep.equal({ bosh: "odd" });
  });
});
