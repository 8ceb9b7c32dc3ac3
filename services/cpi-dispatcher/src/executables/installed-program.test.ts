import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CpiUnusableError } from "@diskmesh/cpi";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { installedProgram } from "./installed-program.js";

describe("a CPI's installed program", () => {
  const folder = temporaryFolder();
  const jobs = join(folder, "jobs");
  /** Creates an executable file with its parent folders. */
  const program = (...path: string[]): string => {
    const file = join(folder, ...path);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, "#!/bin/sh\n", { mode: 0o755 });
    return file;
  };

  before(() => {
    program("jobs", "plain_cpi", "bin", "cpi");
    program("jobs-too", "cpi");
    program("data", "jobs", "bosh_cpi", "0a1b", "bin", "cpi");
    symlinkSync(join(folder, "data", "jobs", "bosh_cpi", "0a1b"), join(jobs, "bosh_cpi"));
    symlinkSync("/bin", join(jobs, "plain_cpi", "tools"));
    symlinkSync("/bin/sh", join(jobs, "plain_cpi", "bin", "shell"));
    symlinkSync("/bin/sh", join(jobs, "shell"));
    symlinkSync(join(jobs, "plain_cpi", "bin", "cpi"), join(folder, "link-into-jobs"));
    symlinkSync(jobs, join(folder, "linked-jobs"));
  });

  for (const path of [
    "jobs/plain_cpi/bin/cpi",
    "jobs/bosh_cpi/bin/cpi",
    "link-into-jobs",
    "linked-jobs/plain_cpi/bin/cpi",
  ])
    it(`runs ${path}`, async () => {
      expect(await installedProgram(join(folder, path), jobs)).to.match(/\/bin\/cpi$/);
    });

  it("runs a program below a jobs folder that is itself a link", async () => {
    const linked = join(folder, "linked-jobs");
    expect(await installedProgram(join(linked, "bosh_cpi/bin/cpi"), linked)).to.match(/0a1b\/bin\/cpi$/);
  });

  const refused = [
    "/bin/sh",
    join(folder, "jobs-too/cpi"),
    join(jobs, "plain_cpi/tools/sh"),
    join(jobs, "plain_cpi/bin/shell"),
    join(jobs, "shell"),
    `${jobs}/plain_cpi/tools/../bin/sh`,
    `${jobs}/../jobs-too/cpi`,
    join(folder, "data/jobs/bosh_cpi/0a1b/bin/cpi"),
    jobs,
  ];
  for (const path of refused)
    it(`refuses ${path.replace(folder, "")}`, async () => {
      await rejection(installedProgram(path, jobs), CpiUnusableError, "executables.jobsFolder");
    });

  it("refuses every program while there is no jobs folder", async () => {
    await rejection(installedProgram("/bin/sh", join(folder, "none")), CpiUnusableError, "executables.jobsFolder");
  });
});
