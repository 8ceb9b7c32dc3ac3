import { expect } from "chai";
import type { TestMesh } from "./test-mesh.js";

/** Types a line of the diskmesh command, expects its exit code, and returns what it printed. */
export async function ended(mesh: TestMesh, line: string, code: number): Promise<string> {
  const result = await mesh.typed(...line.split(" "));
  expect(result.code, `${line}: ${result.out}${result.err}`).to.equal(code);
  return `${result.out}${result.err}`;
}
