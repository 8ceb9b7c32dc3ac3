import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { expect } from "chai";
import { callsOfOnly, thingsChanged, whyHeldUp } from "./cpi-call.js";

describe("objects that a CPI call changes", () => {
  const LOOKS = ["calculateVmCloudProperties", "getCapacity", "getDisks", "hasDisk", "hasVm", "info", "listVms"];
  const NO_CPI = ["endCalls", "fence", "listCpis", "setCpiConfig", "watchCpiLog"];
  const request = { agentId: "agent", vmCid: "vm", diskCid: "disk", token: "t", snapshotCid: "s", stemcellCid: "c" };

  for (const method of Object.keys(CpiServiceDefinition.methods).filter((name) => !NO_CPI.includes(name)))
    it(`${method} -> ${LOOKS.includes(method) ? "changes nothing" : "changes something"}`, () => {
      const things = thingsChanged(method, { ...request, imagePath: "/image" });
      if (LOOKS.includes(method)) expect(things).to.equal(undefined);
      else expect(things).to.not.be.oneOf([undefined, []]);
    });

  const ROWS: [string, object, string[]][] = [
    ["attachDisk", { vmCid: "v", diskCid: "d" }, ["diskCid d", "vmCid v"]],
    ["createDisk near a VM", { vmCid: "v", token: "t" }, ["token t"]],
    ["createDisk without a token", { vmCid: "", token: "" }, []],
    ["createVm with disks", { agentId: "a", diskCids: ["d"] }, ["agentId a"]],
  ];
  for (const [what, fields, things] of ROWS)
    it(`${what} -> ${things.join(", ") || "no named object"}`, () => {
      expect(thingsChanged(what.split(" ")[0] ?? "", fields)).to.deep.equal(things);
    });

  it("a blocked call -> the error names the blocking call, its age and the remedy", () => {
    const call = { callId: "c", directorGeneration: 1, requestId: "task-7", things: [], sinceMs: 5_000 };
    const why = whyHeldUp({ ...call, dispatcher: "10.0.0.5:7020", method: "attachDisk", taskId: 7 }, 65_400);
    expect(why).to.include("dispatcher 10.0.0.5:7020 may still run attachDisk of task 7, started 60 s ago:");
    expect(why).to.include("remove its address from dispatcher.address");
    expect(whyHeldUp(callsOfOnly("10.0.0.5:7020", 1, 0), 0)).to.include(
      "dispatcher 10.0.0.5:7020 may still run unrecorded calls of an earlier director: start that dispatcher",
    );
  });
});
