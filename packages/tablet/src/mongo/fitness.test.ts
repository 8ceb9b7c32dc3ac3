import { expect } from "chai";
import { unfitEngine } from "./fitness.js";

describe("whether a server can hold a tablet", () => {
  const engines: readonly [string, Record<string, unknown>, boolean][] = [
    ["FerretDB 1.24", { version: "7.0.42", ferretdbVersion: "v1.24.0" }, false],
    ["FerretDB 0.9", { version: "6.0.42", ferretdbVersion: "v0.9.4" }, false],
    ["a FerretDB that does not know its version", { version: "7.0.42", ferretdbVersion: "unknown" }, false],
    ["FerretDB 2", { version: "7.0.77", ferretdb: { version: "v2.5.0", package: "docker" } }, true],
    ["a preview of FerretDB 2", { version: "7.0.77", ferretdbVersion: "v2.0.0-rc.1" }, true],
    ["MongoDB", { version: "7.0.5", modules: [], gitVersion: "7809d71e84e314b497f282ea8aa06d7ded3eb205" }, true],
    ["one that says nothing", {}, true],
  ];
  for (const [title, buildInfo, isFit] of engines) {
    it(`${title} -> ${isFit ? "is probed" : "refused by name"}`, () => {
      const unfit = unfitEngine(buildInfo);
      if (isFit) expect(unfit).to.equal(undefined);
      else
        expect(unfit)
          .to.contain(`FerretDB ${JSON.stringify(buildInfo.ferretdbVersion)}`)
          .and.contain("FerretDB 2");
    });
  }
});
