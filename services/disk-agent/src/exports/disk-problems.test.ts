import { HeartbeatRequest } from "@diskmesh/api/internal";
import type { DiskId } from "@diskmesh/domain";
import { expect } from "chai";
import type { AgentMemory } from "../model/memory.js";
import { DiskProblems } from "./disk-problems.js";

const DISK = "disk" as DiskId;

describe("the problems of served disks", () => {
  const exports = new Map([[DISK, { spec: { sessionNumber: 7 } }]]) as unknown as AgentMemory["exports"];
  const ended = () => ({ problem: "its process has ended" });

  it("have whole ages, which a heartbeat can carry, with a clock that has parts of a millisecond", () => {
    const problems = new DiskProblems();
    const ages = [1_000.25, 1_000.75, 2_500.125, 9_999.99].map((nowMs) => {
      const diskProblems = [...problems.list(exports, ended, nowMs)];
      HeartbeatRequest.encode(HeartbeatRequest.fromPartial({ diskProblems })).finish();
      return diskProblems[0]?.ageMs;
    });
    expect(ages).to.deep.equal([0, 0, 1_499, 8_999]);
  });

  it("begin anew after a time without one", () => {
    const problems = new DiskProblems();
    problems.list(exports, ended, 1_000);
    expect(problems.list(exports, () => ({ problem: undefined }), 2_000)).to.deep.equal([]);
    expect(problems.list(exports, ended, 3_000).map(({ ageMs }) => ageMs)).to.deep.equal([0]);
  });
});
