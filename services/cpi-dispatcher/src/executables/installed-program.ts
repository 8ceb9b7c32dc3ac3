import { realpath } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { CpiUnusableError } from "@diskmesh/cpi";

/**
 * Returns the real path of a CPI's executable. The program must be installed below the jobs folder, because whoever
 * updates a cpi-config chooses among the programs there. Links are resolved first, so that no link leads to another
 * program. BOSH installs a job as a link to another folder; the link's target counts as the job's folder. Throws
 * CpiUnusableError for a program elsewhere, and the file system's error for a missing path.
 */
export async function installedProgram(execPath: string, jobsFolder: string): Promise<string> {
  const program = await realpath(execPath);
  const [job = ""] = relative(jobsFolder, resolve(execPath)).split(sep);
  const folders = job === ".." ? [jobsFolder] : [jobsFolder, join(jobsFolder, job)];
  for (const folder of folders) {
    const real = await realpath(folder).catch(() => undefined);
    if (real !== undefined && program.startsWith(real + sep)) return program;
  }
  throw new CpiUnusableError(
    `the CPI's executable ${execPath} is not below ${jobsFolder} (executables.jobsFolder): install it there, or correct exec_path`,
  );
}
