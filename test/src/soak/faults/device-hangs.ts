import { Drive } from "../drive.js";
import { sharedBecause } from "../isolated-soak.js";
import { type Fault, LENGTHS_MS, must } from "./fault.js";

/** A drive answers nothing any more: reads and writes hang in the kernel. */
export const deviceHangs: Fault = {
  name: "hung drive",
  lengthMs: LENGTHS_MS.pause,
  possible: () => sharedBecause() ?? Drive.problem(),
  targets: (mesh) => [...mesh.drives.keys()],
  async begin(mesh, target) {
    const drive = must(mesh.drives.get(target), target);
    drive.hang();
    return () => drive.resume();
  },
};
