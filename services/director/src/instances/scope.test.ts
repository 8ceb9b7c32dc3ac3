import { expect } from "chai";
import type { Deployment } from "../store/deployment.js";
import type { Disk } from "../store/disk.js";
import type { DirectorTables } from "../store/schema.js";
import type { Scope } from "../store/scope.js";
import { coversDeployment, coversDisk, diskIn, isNameTaken } from "./scope.js";

const OF_TEAMS: Readonly<Record<string, readonly string[] | undefined>> = {
  web: ["a"],
  shared: ["a", "b"],
  lone: undefined,
};
const disk = (name: string, deployment: string, scope?: Scope) => ({ name, deployment, scope }) as Disk;
const DISKS = [disk("of-web", "web"), disk("of-lone", "lone", { teams: ["b"] })];

const tables = {
  deployments: new Map(Object.entries(OF_TEAMS).map(([name, teams]) => [name, { name, teams } as Deployment])),
  disks: new Map(DISKS.map((each) => [each.name, each])),
} as unknown as DirectorTables;

describe("a scope", () => {
  const covered = (scope: Scope | undefined) =>
    Object.keys(OF_TEAMS).filter((name) => coversDeployment(scope, tables, name));

  it("covers the deployment of its name, the deployments of its teams, and everything when there is none", () => {
    expect(covered(undefined)).to.deep.equal(["web", "shared", "lone"]);
    expect(covered({ name: "web" })).to.deep.equal(["web"]);
    expect(covered({ name: "a" })).to.deep.equal([]);
    expect(covered({ teams: ["a"] })).to.deep.equal(["web", "shared"]);
    expect(covered({ teams: ["b", "c"] })).to.deep.equal(["shared"]);
    expect(covered({ teams: ["web"] })).to.deep.equal([]);
    expect(covered({ teams: [] })).to.deep.equal([]);
    expect(coversDeployment({ name: "" }, tables, "")).to.equal(false);
  });

  it("covers a disk of a deployment with the deployment, whoever made the disk", () => {
    for (const made of [undefined, { name: "lone" }, { teams: ["b"] }]) {
      const ofWeb = disk("d", "web", made);
      expect(coversDisk({ name: "web" }, tables, ofWeb)).to.equal(true);
      expect(coversDisk({ teams: ["a"] }, tables, ofWeb)).to.equal(true);
      expect(coversDisk({ name: "lone" }, tables, ofWeb)).to.equal(false);
      expect(coversDisk({ teams: ["b"] }, tables, ofWeb)).to.equal(false);
    }
  });

  it("covers a disk without deployment when it is the scope of the disk's maker", () => {
    const [ofName, ofTeams, ofNobody] = [
      disk("d", "", { name: "web" }),
      disk("d", "", { teams: ["a", "b"] }),
      disk("d", ""),
    ];
    const covers = (scope: Scope | undefined) =>
      [ofName, ofTeams, ofNobody].map((each) => coversDisk(scope, tables, each));
    expect(covers(undefined)).to.deep.equal([true, true, true]);
    expect(covers({ name: "web" })).to.deep.equal([true, false, false]);
    expect(covers({ name: "a" })).to.deep.equal([false, false, false]);
    expect(covers({ teams: ["b"] })).to.deep.equal([false, true, false]);
    expect(covers({ teams: ["web"] })).to.deep.equal([false, false, false]);
  });

  it("hides a disk outside of it, whose name stays taken", () => {
    const scope = { name: "web" };
    expect(diskIn(scope, tables, "of-web")).to.equal(DISKS[0]);
    expect(diskIn(scope, tables, "of-lone")).to.equal(undefined);
    const taken = ["of-web", "of-lone", "none"].map((name) => isNameTaken(scope, tables, name));
    expect(taken).to.deep.equal([false, true, false]);
    expect(isNameTaken(undefined, tables, "of-lone")).to.equal(false);
  });
});
