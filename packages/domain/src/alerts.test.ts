import { expect } from "chai";
import { ALERT_NAMES, knownAlert } from "./alerts.js";

describe("alerts", () => {
  for (const name of ALERT_NAMES)
    it(`${name} has a text and a cure of its own`, () => {
      const { text, cure } = knownAlert(name);
      expect(text).to.match(/^\S.{8,}[^.]$/);
      expect(cure[0]).to.match(/^\S.{8,}[^.]$/);
      expect(cure[1]).to.match(/^(diskmesh .+)?$/);
      expect(knownAlert(`${name} /some/file`)).to.equal(knownAlert(name));
    });

  it("of another version are told, too", () => {
    for (const name of ["not_known_here", "toString", ""]) expect(knownAlert(name).cure[0]).to.match(/^do what/);
  });
});
