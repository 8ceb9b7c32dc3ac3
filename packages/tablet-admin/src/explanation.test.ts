import type { Cause } from "@diskmesh/domain";
import { expect } from "chai";
import { explanation } from "./explanation.js";

interface Thing {
  readonly kind: "TASK" | "LOCK";
  readonly name: string;
}

const thing = (name: string): Thing => ({ kind: "TASK", name });

describe("an explanation", () => {
  /** "a>b c!>a" means: a waits for b; c waits for a as well and is only an echo of that. */
  function chainOf(text: string, first: readonly string[] = ["a"]): string[] {
    const all = text.split(" ").map((each) => /^(\w+)(!?)>?(.*)$/.exec(each) ?? []);
    const causesOf = ({ name }: Thing): Cause<Thing, string>[] =>
      all.flatMap(([message = "", of, echo, waitsFor = ""]) => {
        const becauseOf = waitsFor.split(",").filter(Boolean).map(thing);
        const cause = { subject: thing(name), reason: "", message, becauseOf };
        return of === name ? [{ ...cause, ...(echo && { isEcho: true as const }) }] : [];
      });
    return explanation("", first.map(thing), causesOf).causes.map(({ message }) => message);
  }

  const ROWS: readonly [what: string, causes: string, told: string][] = [
    ["a chain", "a>b b>c c", "a>b b>c c"],
    ["each thing once", "a>b,c b>c c>a", "a>b,c b>c c>a"],
    ["an echo of a listed cause is left out", "a>b b!>a", "a>b"],
    ["an echo that leads to a further cause is kept", "a>b b!>a,c c", "a>b b!>a,c c"],
    ["an echo about the subject of the question is kept", "a!>b b", "a!>b b"],
  ];
  for (const [what, causes, told] of ROWS) it(what, () => expect(chainOf(causes).join(" ")).to.equal(told));

  it("tells a cause that two subjects have once, of the first", () => {
    const causesOf = ({ name }: Thing): Cause<Thing, string>[] => [
      { subject: thing(name), reason: "SHARED", message: "a and b", becauseOf: ["a", "b"].map(thing) },
    ];
    expect(explanation("", thing("b"), causesOf).causes.map(({ subject }) => subject?.name)).to.deep.equal(["b"]);
  });

  it("explains several subjects at once", () =>
    expect(chainOf("a b>c c", ["a", "b"])).to.deep.equal(["a", "b>c", "c"]));
});
