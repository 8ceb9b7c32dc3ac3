import { PassThrough } from "node:stream";
import { runCommandLine } from "@diskmesh/cli";
import type { TlsFiles } from "@diskmesh/rpc";

const COMMAND_TIMEOUT_MS = 240_000;

export interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a `diskmesh` command line in this process, because starting a process takes longer than most commands. */
export async function typeCommand(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
  workingFolder: string,
): Promise<Ended> {
  const [out, err] = [new PassThrough(), new PassThrough()];
  const signal = AbortSignal.timeout(COMMAND_TIMEOUT_MS);
  const code = await runCommandLine(args, { out, err, environment, workingFolder, signal });
  return { code, out: String(out.read() ?? ""), err: String(err.read() ?? "") };
}

/** Returns environment variables with which the `diskmesh` command finds its certificate. */
export function certificateEnvironment({ caFile, certFile, keyFile }: TlsFiles): Readonly<Record<string, string>> {
  return { DISKMESH_CA: caFile, DISKMESH_CERT: certFile, DISKMESH_KEY: keyFile };
}
