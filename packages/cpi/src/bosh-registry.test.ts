import { expect } from "chai";
import { stemcellVersionOf, usesBoshRegistry } from "./bosh-registry.js";

describe("the bosh-registry", () => {
  // Version table of seed 000 for a director with version 2. Stemcell 0 means no stemcell, so the CPI's version
  // decides.
  const ROWS: [cpi: number, stemcell: number, effect: boolean][] = [
    [1, 1, true],
    [1, 2, true],
    [2, 1, true],
    [2, 2, false],
    [3, 3, false],
    [2, 0, false],
    [1, 0, true],
  ];
  for (const [cpi, stemcell, effect] of ROWS)
    it(`CPI ${cpi}, stemcell ${stemcell || "none"} -> ${effect ? "used" : "not used"}`, () => {
      expect(usesBoshRegistry(cpi, stemcell)).to.equal(effect);
      expect(cpi < 2 || stemcellVersionOf(stemcell) < 2).to.equal(effect);
    });
});
