import { expect } from "chai";
import { type Decision, decide, type Hardware, isRefused, type Label } from "./decisions.js";

/** All combinations: decisions for hardware that is the same, unknown and other. */
const rows: Readonly<Record<Label, readonly [same: Decision, unknown: Decision, other: Decision]>> = {
  UNREAD: ["ACCEPT", "UNIDENTIFIED", "OTHER_HARDWARE"],
  NONE: ["REWRITE", "UNIDENTIFIED", "OTHER_HARDWARE"],
  DAMAGED: ["REWRITE", "UNIDENTIFIED", "OTHER_HARDWARE"],
  OWN: ["ACCEPT", "ACCEPT", "LABEL_ON_OTHER_HARDWARE"],
  OWN_TWICE: ["ACCEPT", "LABEL_TWICE", "LABEL_TWICE"],
  UNRECORDED: ["RECORD", "LABEL_ON_OTHER_HARDWARE", "LABEL_ON_OTHER_HARDWARE"],
  FORMER: ["RECORD", "LABEL_ON_OTHER_HARDWARE", "OTHER_HARDWARE"],
  OF_OTHER: ["LABEL_OF_OTHER_DEVICE", "LABEL_OF_OTHER_DEVICE", "LABEL_OF_OTHER_DEVICE"],
  OF_OTHER_FLEET: ["LABEL_OF_OTHER_FLEET", "LABEL_OF_OTHER_FLEET", "LABEL_OF_OTHER_FLEET"],
};
const HARDWARE: readonly Hardware[] = ["SAME", "UNKNOWN", "OTHER"];
const LABELS = Object.keys(rows) as Label[];

describe("decisions about identity", () => {
  for (const label of LABELS)
    for (const [at, hardware] of HARDWARE.entries())
      it(`label ${label} on hardware ${hardware} -> ${rows[label][at]}`, () => {
        expect(decide(label, hardware)).to.equal(rows[label][at]);
      });

  it("no label makes other hardware the device, and unknown hardware is the device by its own label alone", () => {
    for (const label of LABELS) {
      expect(isRefused(decide(label, "OTHER")), label).to.equal(true);
      expect(isRefused(decide(label, "UNKNOWN")), label).to.equal(label !== "OWN");
    }
  });
});
