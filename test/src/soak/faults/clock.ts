import { sharedBecause } from "../isolated-soak.js";
import { type Fault, LENGTHS_MS, must } from "./fault.js";

/** Forwards by more than any timeout, backwards by less than certificates were made valid for in the past. */
const JUMPS_SECONDS = { forwards: 6 * 3_600, backwards: -45 * 60 } as const;
const BY = " ";

/** The wall clock of a process jumps, and jumps back. */
export const clock: Fault = {
  name: "clock jump",
  lengthMs: LENGTHS_MS.pause,
  possible: (mesh) => sharedBecause() ?? mesh.clocks.problem,
  targets: (mesh) =>
    Object.keys(JUMPS_SECONDS).flatMap((way) => [...mesh.supervised.keys()].map((name) => name + BY + way)),
  async begin(mesh, target) {
    const [name = "", way = ""] = target.split(BY);
    mesh.clocks.set(name, must(JUMPS_SECONDS[way as keyof typeof JUMPS_SECONDS], way));
    return () => mesh.clocks.set(name, 0);
  },
};
