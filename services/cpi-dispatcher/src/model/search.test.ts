import { expect } from "chai";
import { type Answer, nextSearchStep, type SearchStep } from "./search.js";

const has: Answer = { says: "has" };
const absent: Answer = { says: "absent" };
const deleted: Answer = { says: "deleted" };
const untold: Answer = { says: "untold" };
const claims: Answer = { says: "claims" };
const failed: Answer = { says: "failed", why: "it hangs" };

const remove = (cpi: string, isCertain: boolean): SearchStep => ({ do: "delete", cpi, isCertain });
const end = (isFound: boolean): SearchStep => ({ do: "end", isFound });
const giveUp = (why: string): SearchStep => ({ do: "give_up", why });

describe("the search for an object at other CPIs", () => {
  const cases: [what: string, answers: Record<string, Answer>, step: SearchStep][] = [
    ["no other CPI -> gone", {}, end(false)],
    ["all deny to have it -> gone", { a: absent, b: absent }, end(false)],
    ["one has it -> deleted there", { a: absent, b: has }, remove("b", true)],
    ["one has it and another fails -> deleted where it is", { a: failed, b: has }, remove("b", true)],
    ["one has it and another cannot tell -> only the first deletes", { a: untold, b: has }, remove("b", true)],
    ["it was deleted -> ended, whatever the others", { a: failed, b: deleted, c: untold }, end(true)],
    ["two have it -> nothing is deleted", { a: has, b: has, "": absent }, giveUp("CPI `a` and CPI `b` have it")],
    [
      "one fails, the others deny -> unclear",
      { "": failed, b: absent },
      giveUp("the default CPI did not tell: it hangs"),
    ],
    [
      "two fail -> both are named",
      { a: failed, b: failed },
      giveUp("CPI `a` did not tell: it hangs; CPI `b` did not tell: it hangs"),
    ],
    ["a CPI that cannot tell -> deletes, which is uncertain", { a: untold, b: absent }, remove("a", false)],
    ["one that cannot tell beside one that fails -> asked all the same", { a: failed, b: untold }, remove("b", false)],
    ["a claimed deletion -> the next one that cannot tell is asked, too", { a: claims, b: untold }, remove("b", false)],
    ["a claimed deletion, and all others deny -> found", { a: claims, b: absent }, end(true)],
    [
      "a claimed deletion beside a failure -> unclear",
      { a: claims, b: failed },
      giveUp("CPI `b` did not tell: it hangs"),
    ],
  ];
  for (const [what, answers, step] of cases)
    it(what, () => {
      expect(nextSearchStep(new Map(Object.entries(answers)))).to.deep.equal(step);
    });
});
