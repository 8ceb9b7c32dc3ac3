import { CpiUnusableError } from "@diskmesh/cpi";
import { VERSION_TABLE } from "@diskmesh/cpi/testing";
import { UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import { type InfoOutcome, type Negotiated, negotiate, type VersionsMet } from "./negotiation.js";

const answered = (apiVersion?: number): InfoOutcome => ({ kind: "answered", apiVersion });
const met = (fields: Partial<VersionsMet>): VersionsMet => ({
  preferredApiVersion: 0,
  info: answered(2),
  stemcellApiVersion: 2,
  assumeV1WhenInfoFails: false,
  ...fields,
});

describe("the version of the CPI contract", () => {
  for (const [director, cpi, stemcell, updatesRegistry] of VERSION_TABLE)
    it(`director ${director}, CPI ${cpi}, stemcell ${stemcell} -> ${updatesRegistry ? "bosh-registry" : "no bosh-registry"}`, () => {
      const settled = negotiate(
        met({ preferredApiVersion: director, info: answered(cpi), stemcellApiVersion: stemcell }),
      );
      expect(settled.usesRegistry).to.equal(updatesRegistry);
      expect(settled.apiVersion).to.equal(Math.min(director, cpi));
      expect(settled.attachDiskAnswersHint).to.equal(!updatesRegistry);
    });

  // Seed 000: a missing version counts as 1, and a newer peer is called with the highest version that this dispatcher
  // supports.
  const rows: [what: string, given: Partial<VersionsMet>, expected: Partial<Negotiated>][] = [
    ["no info method", { info: { kind: "not_implemented" } }, { apiVersion: 1, usesRegistry: true }],
    ["info without api_version", { info: answered() }, { apiVersion: 1, usesRegistry: true }],
    ["a CPI newer than us", { info: answered(9) }, { apiVersion: 3, usesRegistry: false }],
    ["a CPI of version 3, preferred 2", { info: answered(3), preferredApiVersion: 2 }, { apiVersion: 2 }],
    ["a CPI of version 3, nothing preferred", { info: answered(3) }, { apiVersion: 3 }],
    ["a director that prefers more than we speak", { info: answered(9), preferredApiVersion: 9 }, { apiVersion: 3 }],
    ["no stemcell", { stemcellApiVersion: 0 }, { apiVersion: 2, usesRegistry: false, attachDiskAnswersHint: true }],
    ["no stemcell, v1", { stemcellApiVersion: 0, info: answered(1) }, { apiVersion: 1, usesRegistry: true }],
    ["a stemcell of version 3", { stemcellApiVersion: 3 }, { apiVersion: 2, usesRegistry: false }],
    [
      "v1 -> a plain CID, no hint, no tags",
      { info: answered(1) },
      { createVmResult: "cid", attachDiskAnswersHint: false, createStemcellTakesTags: false },
    ],
    [
      "v2 with an old stemcell -> either result of create_vm, since CPIs differ",
      { info: answered(2), stemcellApiVersion: 1 },
      { apiVersion: 2, createVmResult: "either", attachDiskAnswersHint: false },
    ],
    [
      "v2 -> CID and networks, a hint, no tags",
      { info: answered(2) },
      { createVmResult: "cid_and_networks", attachDiskAnswersHint: true, createStemcellTakesTags: false },
    ],
    [
      "v3 -> as v2, with tags of stemcells",
      { info: answered(3) },
      { createVmResult: "cid_and_networks", attachDiskAnswersHint: true, createStemcellTakesTags: true },
    ],
    [
      "an info that failed, taken for v1 where that is configured",
      { info: { kind: "failed", message: "boom", isDefinite: true }, assumeV1WhenInfoFails: true },
      { apiVersion: 1, usesRegistry: true },
    ],
  ];
  for (const [what, given, expected] of rows)
    it(`${what} -> ${JSON.stringify(expected)}`, () => {
      expect(negotiate(met(given))).to.include(expected);
    });

  for (const [what, isDefinite, type] of [
    ["failed -> the call may be repeated", false, UnavailableError],
    ["cannot get better -> the call need not be repeated", true, CpiUnusableError],
  ] as const)
    it(`an info that ${what}; no effect, and the error says why`, () => {
      const failing = () => negotiate(met({ info: { kind: "failed", message: "boom", isDefinite } }));
      expect(failing).to.throw(type, "boom").with.property("outcome", "not_done");
    });
});
