import { expect } from "chai";
import { type Decision, decide, type Hardware, isRefused, type Label } from "./decisions.js";

const HARDWARE: readonly Hardware[] = ["SAME", "NAMELESS", "UNPROVEN", "OTHER"];

/** All combinations: decisions by label, for each kind of hardware in that order. */
const rows: Readonly<Record<Label, readonly Decision[]>> = {
  UNREAD: ["ACCEPT", "UNIDENTIFIED", "UNIDENTIFIED", "OTHER_HARDWARE"],
  NONE: ["REWRITE", "UNIDENTIFIED", "UNIDENTIFIED", "OTHER_HARDWARE"],
  DAMAGED: ["REWRITE", "UNIDENTIFIED", "UNIDENTIFIED", "OTHER_HARDWARE"],
  LOST: ["LABEL_LOST", "UNIDENTIFIED", "UNIDENTIFIED", "OTHER_HARDWARE"],
  OWN: ["ACCEPT", "ACCEPT", "LABEL_ON_OTHER_HARDWARE", "LABEL_ON_OTHER_HARDWARE"],
  OWN_TWICE: ["ACCEPT", "LABEL_TWICE", "LABEL_TWICE", "LABEL_TWICE"],
  UNRECORDED: ["RECORD", "LABEL_ON_OTHER_HARDWARE", "LABEL_ON_OTHER_HARDWARE", "LABEL_ON_OTHER_HARDWARE"],
  FORMER: ["RECORD", "LABEL_ON_OTHER_HARDWARE", "LABEL_ON_OTHER_HARDWARE", "OTHER_HARDWARE"],
  OF_OTHER: Array(4).fill("LABEL_OF_OTHER_DEVICE"),
  OF_OTHER_FLEET: Array(4).fill("LABEL_OF_OTHER_FLEET"),
};
const LABELS = Object.keys(rows) as Label[];

describe("decisions about identity", () => {
  for (const label of LABELS)
    for (const [at, hardware] of HARDWARE.entries())
      it(`label ${label} on hardware ${hardware} -> ${rows[label][at]}`, () => {
        expect(decide(label, hardware)).to.equal(rows[label][at]);
      });

  it("no label makes other or unproven hardware the device, and its own label alone makes nameless hardware it", () => {
    for (const label of LABELS) {
      for (const hardware of ["UNPROVEN", "OTHER"] as const)
        expect(isRefused(decide(label, hardware)), label).to.equal(true);
      expect(isRefused(decide(label, "NAMELESS")), label).to.equal(label !== "OWN");
    }
  });

  it("a device that is held goes on without its label", () => {
    for (const label of LABELS)
      for (const hardware of HARDWARE) {
        const goesOn = label === "LOST" && hardware === "SAME";
        expect(decide(label, hardware, { heldSince: true }), label).to.equal(
          goesOn ? "ACCEPT" : decide(label, hardware),
        );
      }
  });

  it("a label that a copy carries, too, is written anew where the drive is known by its label alone after a boot", () => {
    for (const label of LABELS)
      for (const hardware of HARDWARE) {
        const isCopied = label === "OWN_TWICE" && hardware === "SAME";
        expect(decide(label, hardware, { isKnownByLabel: true }), label).to.equal(
          isCopied ? "REWRITE" : decide(label, hardware),
        );
      }
  });
});
