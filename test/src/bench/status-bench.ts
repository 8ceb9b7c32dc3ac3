import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { wholeFleet } from "../mesh/fleets.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { repositoryFolder } from "../repository-folder.js";
import { compared, type Measurement, measurement, median } from "./measure.js";

const ROUNDS = 11;
const MAX_MS = 300;

/** Measures the duration of `diskmesh status`, from the start of its process to its end. */
export async function benchStatus(report: (line: string) => void): Promise<Measurement[]> {
  report("diskmesh status, beside a program that makes one call");
  await using mesh = await TestMesh.start(wholeFleet({ hosts: 0, devicesPerHost: 0, deviceSizeBytes: 0 }));
  const { caFile, certFile, keyFile } = mesh.operatorFiles;
  const env = { ...process.env, ...mesh.commandEnvironment };
  const tookMs = async (...args: string[]): Promise<number> => {
    const startedMs = performance.now();
    await promisify(execFile)(process.execPath, args, { env });
    return performance.now() - startedMs;
  };
  const status = () => tookMs(join(repositoryFolder, "packages/cli/bin/diskmesh.mjs"), "status");
  const oneCallFile = fileURLToPath(new URL("one-call.js", import.meta.url));
  const oneCall = () => tookMs(oneCallFile, mesh.address("director"), caFile, certFile, keyFile);
  await status();
  const [statusMs, oneCallMs] = await compared(ROUNDS, status, oneCall);
  const bare: number[] = [];
  for (let round = 0; round < ROUNDS; round++) bare.push(await tookMs("-e", "0"));
  const value = { value: statusMs, unit: "ms" };
  return [
    measurement({
      name: "diskmesh_status",
      ...value,
      floor: MAX_MS,
      floorOf: "the most allowed",
      budget: { atMost: 1 },
    }),
    measurement({
      name: "diskmesh_status_beside_one_call",
      ...value,
      floor: oneCallMs,
      floorOf: "a Node program that makes one call",
      budget: undefined,
    }),
    measurement({
      name: "diskmesh_status_beside_node",
      ...value,
      floor: median(bare),
      floorOf: "node -e 0",
      budget: undefined,
    }),
  ];
}
