import { Drive } from "../drive.js";
import { isIsolated } from "../isolation.js";
import { type Fault, LENGTHS_MS, must } from "./fault.js";

/** A drive answers everything with EIO. */
export const deviceErrors: Fault = {
  name: "EIO",
  lengthMs: LENGTHS_MS.pause,
  possible: () => (isIsolated ? Drive.problem() : "there are no mounts of the soak's own"),
  targets: (mesh) => [...mesh.drives.keys()],
  async begin(mesh, target) {
    const drive = must(mesh.drives.get(target), target);
    drive.fail();
    return () => drive.mend();
  },
};
