import { join } from "node:path";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { repositoryFolder } from "../repository-folder.js";
import type { TestMesh } from "./test-mesh.js";

/** Types a line of the diskmesh command, expects its exit code, and returns what it printed. */
export async function ended(mesh: TestMesh, line: string, code: number): Promise<string> {
  const result = await mesh.typed(...line.split(" "));
  expect(result.code, `${line}: ${result.out}${result.err}`).to.equal(code);
  return `${result.out}${result.err}`;
}

/** Types a line, with or without the command's name, until its exit code is 0. Returns its output. */
export function done(mesh: TestMesh, line: string): Promise<string> {
  return eventually(async () => {
    const { code, out, err } = await mesh.typed(...line.replace(/^diskmesh /, "").split(" "));
    if (code !== 0) throw new Error(`${line} ended with ${code}: ${out}${err}`);
    return out;
  });
}

/** Returns what pages expect of a shell: the functions `diskmesh` and `g`, which call the mesh, and the variable R. */
export function shellOfPages({ operatorFiles: { caFile, certFile, keyFile } }: TestMesh): string {
  return [
    `diskmesh() { "${process.execPath}" "${join(repositoryFolder, "packages/cli/dist/main.js")}" "$@"; }`,
    `g() { grpcurl -cacert "${caFile}" -cert "${certFile}" -key "${keyFile}" "$@"; }`,
    "R=diskmesh.registry.v1.DiskRegistryService",
  ].join("\n");
}
