import { Drive } from "../drive.js";
import { sharedBecause } from "../isolated-soak.js";
import { type Fault, LENGTHS_MS, must } from "./fault.js";

/** A drive answers everything with EIO. */
export const deviceErrors: Fault = {
  name: "EIO",
  lengthMs: LENGTHS_MS.pause,
  possible: () => sharedBecause() ?? Drive.problem(),
  targets: (mesh) => [...mesh.drives.keys()],
  async begin(mesh, target) {
    const drive = must(mesh.drives.get(target), target);
    drive.fail();
    return () => drive.mend();
  },
};
