import { sharedBecause } from "../isolated-soak.js";
import { smallDiskProblem } from "../small-disk.js";
import { type Fault, LENGTHS_MS, must } from "./fault.js";

/** The file system on which a service keeps its state is filled up to the last byte. */
export const fullDisk: Fault = {
  name: "full disk",
  lengthMs: LENGTHS_MS.pause,
  possible: () => sharedBecause() ?? smallDiskProblem(),
  targets: (mesh) => [...mesh.smallDisks.keys()],
  async begin(mesh, target) {
    const disk = must(mesh.smallDisks.get(target), target);
    disk.fill();
    return () => disk.makeRoom();
  },
};
