import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { repositoryFolder } from "../repository-folder.js";

/** As an operator does, with the command; answers what it prints. */
export async function backUpRegistry(
  address: string,
  { caFile, certFile, keyFile }: { readonly caFile: string; readonly certFile: string; readonly keyFile: string },
  file: string,
): Promise<string> {
  const command = join(repositoryFolder, "packages/cli/bin/diskmesh.mjs");
  const env = {
    ...process.env,
    ...{ DISKMESH_REGISTRY: address, DISKMESH_CA: caFile, DISKMESH_CERT: certFile, DISKMESH_KEY: keyFile },
  };
  return (await promisify(execFile)(process.execPath, [command, "backup", "registry", file], { env })).stdout;
}
