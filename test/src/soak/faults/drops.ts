import { sharedBecause } from "../isolated-soak.js";
import type { SoakMesh } from "../soak-mesh.js";
import { type Fault, LENGTHS_MS, must } from "./fault.js";

const BETWEEN = " - ";

/** Every packet between two processes is lost, both ways, and no RST tells anybody. */
export const drops: Fault = {
  name: "packets dropped",
  lengthMs: LENGTHS_MS.pause,
  possible: sharedBecause,
  targets: (mesh) => talkingPairs(mesh).map((pair) => pair.join(BETWEEN)),
  async begin(mesh, target) {
    const network = must(mesh.network, "network of the soak's own");
    const [one = "", other = ""] = target.split(BETWEEN);
    network.cut(one, other);
    return () => network.heal(one, other);
  },
};

function talkingPairs(mesh: SoakMesh): [string, string][] {
  const { directors, registries, hostIds, workHosts } = mesh;
  const across = (some: readonly string[], others: readonly string[]) =>
    some.flatMap((one) => others.map((other): [string, string] => [one, other]));
  const databases = mesh.store.database === undefined ? [] : ["database"];
  return [
    ...across(directors, ["cpi-dispatcher", "nats"]),
    ...across(["cpi-dispatcher"], registries),
    ...across(registries, hostIds),
    ...across(["nats"], hostIds),
    // Disks have devices on other hosts.
    ...across(workHosts, workHosts).filter(([one, other]) => one < other),
    ...across([...directors, ...registries], databases),
  ];
}
