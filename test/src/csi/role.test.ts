import { expect } from "chai";
import { offeredServices } from "../reference/roles.js";

const ALLOWED = ["Create", "Attach", "Detach", "Delete", "Get", "Resize", "Provide", "Undelete"].map(
  (verb) => `${verb}DynamicDisk`,
);
const MORE_ALLOWED = ["ListDynamicDisks", "GetDynamicDiskCapacity", "SetDynamicDiskLimits"];

const READS = ["GetTask", "GetTaskOutput", "ListDeployments", "ListInstances", "ListTasks", "WatchTask"];

it("callers whose rights end may call the methods of dynamic disks, and are refused by every other method of every service", () => {
  const offered = [...offeredServices().values()].flat();
  expect(new Set(offered.map(({ process }) => process))).to.have.property("size", 4);
  const methods = offered.flatMap(({ roles, scoped }) =>
    [...roles].map(([name, allowed]) => ({ name, allowed, isScoped: scoped.includes(name) })),
  );
  const namesOf = (found: typeof methods) => found.map(({ name }) => name).sort();
  const disks = [...ALLOWED, ...MORE_ALLOWED].sort();
  const csi = [...disks, "ReportCsiDriver"].sort();
  const ofCsi = methods.filter(({ allowed }) => allowed.includes("csi"));
  expect(namesOf(ofCsi)).to.deep.equal(csi);
  expect(namesOf(ofCsi.filter(({ isScoped }) => isScoped))).to.deep.equal(csi);
  const ofScopedOperators = methods.filter(({ allowed, isScoped }) => isScoped && allowed.includes("operator-disks"));
  expect(namesOf(ofScopedOperators)).to.deep.equal([...disks, ...READS].sort());
});
