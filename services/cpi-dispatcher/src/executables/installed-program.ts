import { realpath } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { CpiUnusableError } from "@diskmesh/cpi";

/**
 * Returns the real path of a CPI's executable. It must be installed below the jobs folder: whoever updates a cpi config
 * chooses among the programs there. Links are followed first, so that none leads to another program. BOSH installs a job
 * as a link to a folder elsewhere; the folder behind such a link counts as the job's.
 * Throws CpiUnusableError for a program elsewhere, and the file system's error for a path that leads nowhere.
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
