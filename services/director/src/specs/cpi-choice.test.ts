import { expect } from "chai";
import { NO_AZ } from "./cloud-config.js";
import { type CpiNames, cpiOfAz, cpiToRecord, currentCpi, sameCpi } from "./cpi-choice.js";

const NONE: CpiNames = { cpis: undefined };
const SOME: CpiNames = {
  cpis: [
    { name: "east", migratedFrom: ["orient", ""] },
    { name: "west", migratedFrom: ["east-old"] },
  ],
};
const az = (cpi: string) => ({ name: "z1", cloudProperties: {}, cpi });

describe("the CPI of an az, and recorded CPI names", () => {
  const AZ: [string, string, CpiNames, string | RegExp][] = [
    ["no cpi-config, az without CPI", "", NONE, ""],
    ["no cpi-config, az with a CPI", "cell2", NONE, "cell2"],
    ["cpi-config, az with a CPI of it", "west", SOME, "west"],
    ["cpi-config, az with a former name", "orient", SOME, "east"],
    ["cpi-config, az without CPI", "", SOME, /AZ `z1` must specify a CPI when CPI config is defined/],
    [
      "cpi-config, az with another",
      "north",
      SOME,
      /CPI `north` of AZ `z1` not found in cpi-config: it has `east`, `west`/,
    ],
  ];
  for (const [cause, cpi, names, effect] of AZ) {
    it(`${cause} -> ${effect}`, () => {
      if (effect instanceof RegExp) expect(() => cpiOfAz(az(cpi), names)).to.throw(effect);
      else expect(cpiOfAz(az(cpi), names)).to.equal(effect);
    });
  }

  it("no az -> the default CPI, or the CPI that adopted its objects", () => {
    expect(cpiOfAz(NO_AZ, NONE)).to.equal("");
    expect(cpiOfAz(NO_AZ, SOME)).to.equal("east");
    expect(cpiOfAz(NO_AZ, { cpis: [{ name: "west", migratedFrom: [] }] })).to.equal("");
  });

  const SAME: [string, string, CpiNames, boolean][] = [
    ["east", "east", SOME, true],
    ["orient", "east", SOME, true],
    ["", "east", SOME, true],
    ["", "west", SOME, false],
    ["east", "west", SOME, false],
    ["gone", "gone", SOME, true],
    ["gone", "east", SOME, false],
    ["a", "b", NONE, false],
    ["", "", NONE, true],
  ];
  for (const [a, b, names, effect] of SAME) {
    it(`"${a}" and "${b}", ${names.cpis ? "a" : "no"} cpi-config -> ${effect ? "the same CPI" : "two CPIs"}`, () => {
      expect(sameCpi(a, b, names)).to.equal(effect);
    });
  }

  it("a name that is both a present and a former name -> the present CPI", () => {
    const names = {
      cpis: [
        { name: "a", migratedFrom: ["b"] },
        { name: "b", migratedFrom: [] },
      ],
    };
    expect(currentCpi("b", names)).to.equal("b");
  });

  it("recorded name: the answering CPI, but empty for the default CPI, whose objects may be adopted", () => {
    expect(cpiToRecord("orient", "east")).to.equal("east");
    expect(cpiToRecord("east", "")).to.equal("east");
    expect(cpiToRecord("", "fleet")).to.equal("");
  });
});
