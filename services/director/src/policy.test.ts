import { readFileSync } from "node:fs";
import { expect } from "chai";
import { allRoutes } from "./http/routes.js";
import { isAllowed, policyTable } from "./policy.js";

describe("the policy", () => {
  it("the table in ARCHITECTURE.md -> what the command prints", () => {
    const text = readFileSync(new URL("../../../ARCHITECTURE.md", import.meta.url), "utf8");
    // The formatter gives columns a width.
    const plain = (table: string): string => table.replace(/-{3,}/g, "---").replace(/ +/g, " ");
    expect(plain(text)).to.contain(plain(policyTable()));
  });

  it("admins may do everything, readers read, and both may be of one director alone", () => {
    const allowed = (scopes: string[]) => [isAllowed("deploy", scopes, "d1"), isAllowed("listTasks", scopes, "d1")];
    expect(allowed(["bosh.admin"])).to.deep.equal([true, true]);
    expect(allowed(["bosh.d1.admin"])).to.deep.equal([true, true]);
    expect(allowed(["bosh.d2.admin", "bosh.d2.read"])).to.deep.equal([false, false]);
    expect(allowed(["bosh.d1.read"])).to.deep.equal([false, true]);
    expect(isAllowed("provideDisk", ["bosh.dynamic-disks.create"], "d1")).to.equal(false);
  });

  it("routes that look by themselves -> only those of one task", () => {
    const paths = allRoutes.filter(({ operation }) => operation === undefined).map(({ path }) => path);
    expect(paths).to.deep.equal(["/tasks/:id", "/tasks/:id/output"]);
  });
});
