import { always, type Fault, LENGTHS_MS, must } from "./fault.js";

/** SIGKILL to a service; whoever supervises it starts it again. */
export const kill: Fault = {
  name: "kill",
  lengthMs: LENGTHS_MS.kill,
  possible: always,
  targets: (mesh) => [...mesh.supervised.keys()],
  begin: (mesh, target) => must(mesh.supervised.get(target), target).kill(),
};
