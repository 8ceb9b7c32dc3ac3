import { expect } from "chai";
import type { Finding } from "../store/problem.js";
import { defaultResolution, nextToResolve, recordFindings, resolutionsOf } from "./problem.js";

const FINDING: Finding = {
  type: "missing_vm",
  deployment: "web",
  group: "db",
  instanceId: "i",
  vmCid: "v",
  cpi: "",
  diskCid: "",
  disk: null,
  elsewhere: [],
  description: "it is gone",
};
const DISK = { disk: { kind: "dynamic", key: "data" }, diskCid: "d" } as const;

describe("problems", () => {
  const ROWS: [string, Partial<Finding>, string, string][] = [
    ["a VM is gone", {}, "recreate_vm", "delete_vm_reference"],
    ["an agent is silent", { type: "unresponsive_agent" }, "ignore", "reboot_vm"],
    ["a disk is gone", { type: "missing_disk", ...DISK }, "ignore", "delete_disk_reference"],
    ["a disk is elsewhere", { type: "mount_info_mismatch", ...DISK }, "ignore", "reattach_disk"],
    ["a disk is somewhere", { type: "mount_info_mismatch", ...DISK, vmCid: "" }, "ignore", "detach_disk"],
    ["no link", { type: "missing_link", ...DISK }, "add_link", "add_link"],
    ["another's link", { type: "surplus_link", ...DISK }, "remove_link", "remove_link"],
    ["a VM without a record", { type: "unknown_vm", instanceId: "" }, "ignore", "delete_vm"],
    ["a stranger's link", { type: "surplus_link", diskCid: "s" }, "ignore", "ignore"],
  ];
  for (const [what, finding, fallback, one] of ROWS)
    it(`${what} -> by default ${fallback}; ${one} is a choice, too`, () => {
      const all = resolutionsOf({ ...FINDING, ...finding });
      expect(defaultResolution({ ...FINDING, ...finding })).to.equal(fallback);
      expect(all).to.include.members([fallback, one, "ignore"]);
    });

  it("found again -> number and time are kept; not found again -> deleted; handled -> opened anew", () => {
    let last = 0;
    const nextId = () => ++last;
    const second: Finding = { ...FINDING, instanceId: "j" };
    const { put: first } = recordFindings([], [FINDING, second], nextId, 1_000);
    expect(first.map(({ problemId, foundAtMs, open }) => [problemId, foundAtMs, open])).to.deep.equal([
      [1, 1_000, true],
      [2, 1_000, true],
    ]);
    const handled = first.map((problem) => ({ ...problem, handledByTaskId: 7, outcome: "it failed" }));
    const again = recordFindings(handled, [{ ...FINDING, vmCid: "w" }], nextId, 2_000);
    expect(again.forget.map(({ problemId }) => problemId)).to.deep.equal([2]);
    expect(again.put[0]).to.include({
      problemId: 1,
      foundAtMs: 1_000,
      vmCid: "w",
      outcome: "it failed",
      handledByTaskId: 0,
    });
    const [closed] = handled.map((problem) => ({ ...problem, open: false }));
    const anew = recordFindings(closed === undefined ? [] : [closed], [FINDING], nextId, 3_000);
    expect(anew.put[0]).to.include({ problemId: 1, foundAtMs: 3_000, open: true, outcome: "" });
  });

  it("a task handles each of its problems once, by the chosen or default resolution, and no others", () => {
    const { put } = recordFindings(
      [],
      ["i", "j", "k"].map((instanceId) => ({ ...FINDING, instanceId })),
      (
        (last) => () =>
          ++last
      )(0),
      0,
    );
    const job = {
      answers: [
        { problemId: 2, resolution: "ignore" },
        { problemId: 3, resolution: "" },
      ],
      auto: false,
    };
    const dealtWith: string[] = [];
    const deal = (wanted: typeof job) => {
      let problems = put;
      for (
        let next = nextToResolve(problems, wanted, 7);
        next !== undefined;
        next = nextToResolve(problems, wanted, 7)
      ) {
        const { problem, resolution } = next;
        dealtWith.push(`${problem.problemId} ${resolution}`);
        problems = problems.map((each) => (each === problem ? { ...each, handledByTaskId: 7 } : each));
      }
      return dealtWith.splice(0);
    };
    expect(deal(job)).to.deep.equal(["2 ignore", "3 recreate_vm"]);
    expect(deal({ ...job, auto: true })).to.deep.equal(["1 recreate_vm", "2 ignore", "3 recreate_vm"]);
  });
});
