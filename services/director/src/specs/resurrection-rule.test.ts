import { expect } from "chai";
import { type GroupFilter, type ResurrectionRule, rulesAllow } from "./resurrection-rule.js";

const filter = (deployments: readonly string[] = [], groups: readonly string[] = []): GroupFilter => ({
  deployments,
  groups,
});
const rule = (isOn: boolean, include = filter(), exclude = filter()): ResurrectionRule => ({ isOn, include, exclude });

describe("rules of resurrection configs, for group db of deployment d", () => {
  const cases: [what: string, rules: readonly ResurrectionRule[], expected: boolean][] = [
    ["nothing", [], true],
    ["off for all", [rule(false)], false],
    ["off for its deployment", [rule(false, filter(["c", "d"]))], false],
    ["off for another deployment", [rule(false, filter(["c"]))], true],
    ["off for groups of that name", [rule(false, filter([], ["db"]))], false],
    ["off for the group of another deployment", [rule(false, filter(["c"], ["db"]))], true],
    ["off for another of its deployment's groups", [rule(false, filter(["d"], ["web"]))], true],
    ["off for all but its deployment", [rule(false, filter(), filter(["d"]))], true],
    ["off for all but another deployment", [rule(false, filter(), filter(["c"]))], false],
    ["off for its deployment but for the group", [rule(false, filter(["d"]), filter([], ["db"]))], true],
    ["off for its deployment but for another group", [rule(false, filter(["d"]), filter(["d"], ["web"]))], false],
    [
      "on for the group, and off for its deployment",
      [rule(true, filter([], ["db"])), rule(false, filter(["d"]))],
      false,
    ],
    ["on for another deployment alone", [rule(true, filter(["c"]))], true],
  ];
  for (const [what, rules, expected] of cases)
    it(`${what} -> ${expected ? "recreated" : "not recreated"}`, () =>
      expect(rulesAllow(rules, { deployment: "d", group: "db" })).to.equal(expected));
});
