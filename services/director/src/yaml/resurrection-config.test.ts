import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { parseResurrectionConfig } from "./resurrection-config.js";

const LIMITS = { what: "resurrection config `default`", sizeBytes: 100_000 };
const NONE = { deployments: [], groups: [] };
/** One rule more than the limit. */
const MANY = 1_001;

describe("configs of type resurrection in YAML", () => {
  it("BOSH's whole format -> rules", () => {
    const text = `rules:
- enabled: true
- enabled: false
  include: {deployments: [web, api], instance_groups: [db]}
  exclude:
    instance_groups: [cache]
`;
    expect(parseResurrectionConfig(text, LIMITS)).to.deep.equal([
      { isOn: true, include: NONE, exclude: NONE },
      {
        isOn: false,
        include: { deployments: ["web", "api"], groups: ["db"] },
        exclude: { deployments: [], groups: ["cache"] },
      },
    ]);
  });

  const refused: [what: string, text: string, says: string][] = [
    ["no rules", "a: 1", "a"],
    ["a rule that says neither on nor off", "rules: [{include: {deployments: [web]}}]", "rules.0.enabled"],
    ["a word that is neither", "rules: [{enabled: maybe}]", "rules.0.enabled"],
    ["a wrongly indented include", "rules:\n- enabled: false\n  include:\n  deployments: [web]", "rules.0"],
    ["an empty filter, which would be for all", "rules: [{enabled: false, exclude: {}}]", "rules.0.exclude"],
    ["a filter that BOSH has not", "rules: [{enabled: false, include: {azs: [z1]}}]", "azs"],
    ["a name that none can have", "rules: [{enabled: false, include: {deployments: [../etc]}}]", "deployments.0"],
    ["more rules than are looked through", `rules: [${"{enabled: true},".repeat(MANY)}]`, "the limit is 1000"],
  ];
  for (const [what, text, says] of refused)
    it(`${what} -> refused`, () =>
      expect(() => parseResurrectionConfig(text, LIMITS)).to.throw(InvalidArgumentError, says));
});
