import { type Cause, SubjectKind } from "@diskmesh/api/common";
import { expect } from "chai";
import { rootCause } from "./root-cause.js";

/** Parses causes: "a>b,c" means that a waits for b and c. */
function causesIn(text: string): Cause[] {
  return text
    .split(" ")
    .filter(Boolean)
    .map((each) => {
      const [name = "", waitsFor = ""] = each.split(">");
      const subject = (of: string) => ({ kind: SubjectKind.TASK, name: of });
      const becauseOf = waitsFor.split(",").filter(Boolean).map(subject);
      return {
        subject: subject(name),
        reason: "",
        message: each,
        startTime: undefined,
        nextAttemptTime: undefined,
        cures: [],
        becauseOf,
      };
    });
}

describe("the root cause of a list of causes", () => {
  const ROWS: readonly [causes: string, root: string | undefined][] = [
    ["", undefined],
    ["a", "a"],
    ["a>b b", "b"],
    ["a>b b>c c", "c"],
    ["a>b,c c", "c"],
    ["a>b", "a>b"],
    ["a>b b>a", "b>a"],
    ["a a>b b", "a"],
    ["a>b b>c c>b", "c>b"],
  ];
  for (const [causes, root] of ROWS)
    it(`${causes || "nothing"} -> ${root ?? "nothing"}`, () =>
      expect(rootCause(causesIn(causes))?.message).to.equal(root));
});
