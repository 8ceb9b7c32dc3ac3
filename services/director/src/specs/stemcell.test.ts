import { expect } from "chai";
import type { Stemcell } from "../store/stemcell.js";
import { chooseStemcell, compareVersions } from "./stemcell.js";

const row = (version: string, cpi: string, more: Partial<Stemcell> = {}): Stemcell => ({
  name: "ubuntu",
  version,
  operatingSystem: "noble",
  apiVersion: 3,
  cpi,
  stemcellCid: `sc-${version}-${cpi}`,
  createdAtMs: 0,
  deleting: false,
  ...more,
});
const NAMES = {
  cpis: [
    { name: "east", migratedFrom: ["orient"] },
    { name: "west", migratedFrom: [] },
  ],
};

describe("stemcells", () => {
  const CHOICES: [string, { os?: string; name?: string; version: string }, Stemcell[], string | RegExp][] = [
    ["the version asked for", { os: "noble", version: "1" }, [row("1", "east"), row("2", "east")], "sc-1-east"],
    ["by name", { name: "ubuntu", version: "1" }, [row("1", "east")], "sc-1-east"],
    ["latest", { os: "noble", version: "latest" }, [row("1.9", "east"), row("1.10", "east")], "sc-1.10-east"],
    ["latest, higher elsewhere", { os: "noble", version: "latest" }, [row("1", "east"), row("2", "west")], "sc-1-east"],
    ["under a former name", { os: "noble", version: "1" }, [row("1", "orient")], "sc-1-orient"],
    ["under both names", { os: "noble", version: "1" }, [row("1", "orient"), row("1", "east")], "sc-1-east"],
    [
      "a stemcell that is being deleted",
      { os: "noble", version: "1" },
      [row("1", "east", { deleting: true })],
      /there is no stemcell/,
    ],
    ["none", { os: "jammy", version: "1" }, [row("1", "east")], /no stemcell of OS `jammy`, version `1`: upload/],
    ["none of that name", { name: "toy", version: "1" }, [row("1", "east")], /no stemcell `toy` version `1`: upload/],
    [
      "only elsewhere, since its CPI takes no such format",
      { os: "noble", version: "1" },
      [row("1", "west", { unfitCpis: ["orient"] })],
      /has no format that CPI `east` takes: upload a stemcell for it/,
    ],
    ["only elsewhere", { os: "noble", version: "1" }, [row("1", "west")], /was not created with CPI `east`/],
  ];
  for (const [cause, wanted, rows, effect] of CHOICES) {
    it(`${cause} -> ${effect}`, () => {
      const choose = () => chooseStemcell({ alias: "a", os: "", name: "", ...wanted }, "east", rows, NAMES).stemcellCid;
      if (effect instanceof RegExp) expect(choose).to.throw(effect);
      else expect(choose()).to.equal(effect);
    });
  }

  it("versions are sorted by their numeric parts", () => {
    const sorted = ["1", "1.0-rc", "1.0", "1.9", "1.10", "1.10.1", "2", "10"];
    expect([...sorted].reverse().sort(compareVersions)).to.deep.equal(["1", "1.0", "1.0-rc", ...sorted.slice(3)]);
  });
});
