import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { CpiConfig } from "@diskmesh/api/cpi";
import { newCall, RemoteCpi } from "@diskmesh/cpi/testing";
import { testCertificates } from "@diskmesh/testkit";
import { ReferenceCpi } from "../reference-cpi/install.js";
import { CPI_CONFIG_VERSION, TestDispatcher } from "../reference-cpi/test-dispatcher.js";
import { type Measurement, measurement, median } from "./measure.js";

const WARM_UP = 5;
const CALLS = 60;

/** Compares a CPI call through the dispatcher with starting the same executable directly, with the same request. */
export async function benchCpi(report: (line: string) => void): Promise<Measurement[]> {
  report("the reference CPI, bare and behind the dispatcher");
  await using dispatcher = await TestDispatcher.start(await testCertificates());
  const installed = new ReferenceCpi(dispatcher.folder);
  const properties = { state_folder: installed.stateFolder };
  await dispatcher.setCpis([
    CpiConfig.fromPartial({ name: "reference", type: "reference", execPath: installed.execPath, properties }),
  ]);
  const cpi = new RemoteCpi(dispatcher.director, { cpi: "reference", cpiConfigVersion: CPI_CONFIG_VERSION });
  const request = JSON.stringify({ method: "has_vm", arguments: ["i-1"], api_version: 2, context: properties });
  const bare: number[] = [];
  const dispatched: number[] = [];
  // Alternates between the two, so that a temporary slowdown of the machine affects both.
  for (let call = 0; call < WARM_UP + CALLS; call++) {
    const bareMs = await durationMs(() => bareCall(installed.execPath, request));
    const dispatchedMs = await durationMs(() => cpi.hasVm("i-1", newCall()));
    if (call < WARM_UP) continue;
    bare.push(bareMs);
    dispatched.push(dispatchedMs);
  }
  return [
    measurement({
      name: "cpi_call_time",
      value: median(dispatched),
      unit: "ms",
      floor: median(bare),
      floorOf: "bare spawn of the same executable",
      budget: { atMost: 1.3 },
    }),
  ];
}

async function durationMs(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

function bareCall(execPath: string, request: string): Promise<void> {
  return new Promise((resolve, reject) => {
    // Uses the same environment as the dispatcher, because node does additional work in a larger one.
    const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", TMPDIR: tmpdir(), HOME: process.env.HOME ?? "/" };
    const child = spawn(execPath, [], { stdio: ["pipe", "pipe", "pipe"], env });
    let answer = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      answer += text;
    });
    child.stderr.resume();
    child.once("error", reject);
    child.once("close", () =>
      answer.includes('"result":false') ? resolve() : reject(new Error(`the CPI answered ${answer}`)),
    );
    child.stdin.end(request);
  });
}
