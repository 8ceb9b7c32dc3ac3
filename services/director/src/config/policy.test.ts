import { PermissionDeniedError } from "@diskmesh/domain";
import { methodsOfRole, scopedMethods } from "@diskmesh/testkit";
import { expect } from "chai";
import { allRoutes } from "../http/routes/routes.js";
import { addServices } from "../services.js";
import { checkRole, isAllowed, POLICY, type Rule, teamsOfRight } from "./policy.js";

describe("the permission policy", () => {
  it("admins may do everything, readers may read, and both scopes may apply to a single director", () => {
    const allowed = (scopes: string[]) => [isAllowed("deploy", scopes, "d1"), isAllowed("listTasks", scopes, "d1")];
    expect(allowed(["bosh.admin"])).to.deep.equal([true, true]);
    expect(allowed(["bosh.d1.admin"])).to.deep.equal([true, true]);
    expect(allowed(["bosh.d2.admin", "bosh.d2.read"])).to.deep.equal([false, false]);
    expect(allowed(["bosh.d1.read"])).to.deep.equal([false, true]);
    expect(isAllowed("provideDynamicDisk", ["bosh.dynamic-disks.create"], "d1")).to.equal(false);
  });

  it("over gRPC, each operator role permits what its name says, and only the first permits everything", () => {
    const of = methodsOfRole((server) => addServices(server, () => expect.fail()));
    const reads = of("operator-reader");
    for (const method of reads) expect(method).to.match(/^(get|list|watch|explain)/);
    expect(of("operator-hosts")).to.deep.equal(reads);
    const changes = ["resizeDynamicDisk", "setDynamicDiskLimits"];
    const disks = [
      "provideDynamicDisk",
      "createDynamicDisk",
      "attachDynamicDisk",
      ...changes,
      "detachDynamicDisk",
      "deleteDynamicDisk",
      "undeleteDynamicDisk",
    ];
    expect(of("operator-disks")).to.have.members([...reads, ...disks]);
    expect(of("csi"), "no method but those of dynamic disks").to.have.members([
      ...disks,
      "getDynamicDisk",
      "listDynamicDisks",
      "getDynamicDiskCapacity",
      "reportCsiDriver",
    ]);
    const kept = ["updateConfig", "deleteConfig", "diffConfig", "deleteOrphanedDisk", "forgetPossibleOrphan"];
    const more = [
      "forgetAgentAuthority",
      "reportCsiDriver",
      "deleteSnapshots",
      "callMethod",
      "createMethodLink",
      "createBackup",
    ];
    const others = of("operator").filter((method) => !of("operator-deployments").includes(method));
    expect(others).to.have.members([...disks, ...kept, ...more]);
    for (const operation of ["readCpiConfigs", "getTaskDebugOutput"] as const)
      expect(() => checkRole(operation, { role: "operator-reader", name: "bob" })).to.throw(
        PermissionDeniedError,
        `operator-reader bob may not ${operation}: allowed are operator`,
      );
  });

  it("callers with a scope may use dynamic disks, and read what they need for that", () => {
    const scoped = scopedMethods((server) => addServices(server, () => expect.fail()));
    const disks = [
      "attachDynamicDisk",
      "createDynamicDisk",
      "deleteDynamicDisk",
      "detachDynamicDisk",
      "getDynamicDiskCapacity",
      "getDynamicDisk",
      "listDynamicDisks",
    ];
    const more = ["provideDynamicDisk", "resizeDynamicDisk", "setDynamicDiskLimits", "undeleteDynamicDisk"];
    const reads = ["getTask", "getTaskOutput", "listDeployments", "listInstances", "listTasks", "watchTask"];
    expect(scoped).to.have.members([...disks, ...more, ...reads, "reportCsiDriver"]);
    for (const operation of ["listOwedRemovals", "getTaskDebugOutput"] as const)
      expect(() => checkRole(operation, { role: "operator-disks", name: "a" })).to.throw(PermissionDeniedError);
    checkRole("deleteDynamicDisk", { role: "csi", name: "web" });
  });

  it("a login's right to an operation ends at the teams that its scopes name, or nowhere", () => {
    const ends = (...scopes: string[]) => teamsOfRight("provideDynamicDisk", scopes, "d1");
    const right = (team: string, name: string) => `bosh.teams.${team}.dynamic-disks.${name}`;
    expect(ends("bosh.admin", "bosh.teams.a.admin")).to.equal(undefined);
    expect(ends("bosh.dynamic-disks.create", "bosh.dynamic-disks.attach")).to.equal(undefined);
    expect(ends("bosh.teams.a.admin", "bosh.teams.b.read")).to.deep.equal(["a"]);
    expect(ends(right("a", "create"), right("b", "create"), right("b", "attach"))).to.deep.equal(["b"]);
    expect(ends(right("a", "create"), "bosh.dynamic-disks.attach")).to.deep.equal([]);
    const scopes = ["create", "attach", "detach", "delete", "list"].map((name) => right("a", name));
    for (const [operation, rule] of Object.entries(POLICY) as [keyof typeof POLICY, Rule][]) {
      const isOfDisks = rule.scopes.flat().some((scope) => scope.startsWith("bosh.dynamic-disks."));
      expect(isAllowed(operation, scopes, "d1", ["a"]), operation).to.equal(isOfDisks);
      expect(isAllowed(operation, scopes, "d1", ["b"]), operation).to.equal(false);
    }
  });

  it("only routes about one task check permissions by themselves", () => {
    const paths = allRoutes
      .filter(({ operation, isOpen }) => operation === undefined && !isOpen)
      .map(({ path }) => path);
    expect(paths).to.deep.equal(["/tasks/:id", "/tasks/:id/output", "/resources/:id"]);
  });
});
